// Sorting against the evaluator's definition.
#include <gtest/gtest.h>

#include <limits>

#include "interp/reductions.h"
#include "runtime/kernels/registry/library.h"

namespace toroid {
namespace {

ToroidOperand operand(const HostTensor& tensor, const std::vector<int64_t>& strides) {
  return {const_cast<std::byte*>(tensor.bytes().data()),
          tensor.sizes().data(),
          strides.data(),
          static_cast<int32_t>(tensor.rank()),
          static_cast<int32_t>(tensor.dtype()),
          0};
}

void expect_sorted(const HostTensor& x, int64_t dim, bool descending, int threads = 2) {
  RuntimePool pool(threads);
  HostTensor values(x.dtype(), x.sizes());
  HostTensor positions(DType::I64, x.sizes());
  const std::vector<int64_t> strides = strides_of(x.sizes());
  const ToroidOperand in[] = {operand(x, strides)};
  const ToroidOperand out[] = {operand(values, strides), operand(positions, strides)};
  const int64_t integers[] = {dim, descending ? 1 : 0, 1};
  run_library_kernel("sort", {pool, in, out, integers, {}});
  const std::vector<HostTensor> expected = sort(x, static_cast<int>(dim), descending);
  EXPECT_TRUE(std::ranges::equal(values.bytes(), expected[0].bytes())) << to_string(x) << " along " << dim;
  EXPECT_EQ(positions.to_ints(), expected[1].to_ints()) << to_string(x) << " along " << dim;
}

TEST(Sort, EveryDtypeDimAndLength) {
  uint32_t state = 1;
  auto next = [&] { return static_cast<int64_t>((state = state * 1664525u + 1013904223u) >> 8); };
  for (DType dtype :
       {DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{3, 7, 5}, {2, 1000}, {300, 3}, {1, 1}, {0, 4}, {}}) {
      std::vector<double> numbers;
      std::vector<int64_t> whole;
      for (int64_t i = 0; i < numel(sizes); ++i) {
        const int64_t n = next();
        numbers.push_back(n % 11 == 0   ? std::numeric_limits<double>::quiet_NaN()
                          : n % 13 == 0 ? -std::numeric_limits<double>::infinity()
                          : n % 7 == 0  ? -0.0
                          : n % 5 == 0  ? 0.0
                                        : static_cast<double>(n % 400 - 200) / 8);
        whole.push_back(n % 17 == 0 ? std::numeric_limits<int64_t>::min() : n % 50 - 25);
      }
      const HostTensor x = is_floating(dtype) ? HostTensor::from_doubles(dtype, sizes, numbers)
                                              : HostTensor::from_ints(dtype, sizes, dtype == DType::Bool ? [&] {
                                                  for (int64_t& v : whole) v &= 1;
                                                  return whole;
                                                }() : whole);
      for (int64_t dim = 0; dim < std::max<int64_t>(1, x.rank()); ++dim) {
        for (bool descending : {false, true}) expect_sorted(x, dim, descending);
      }
    }
  }
}

// Lines that all threads sort together: keys that all differ in their highest bits, ranges that need one pass of digits or several, and
// elements all equal.
TEST(Sort, LongLines) {
  uint64_t state = 1;
  auto next = [&] { return static_cast<int64_t>(state = state * 6364136223846793005u + 1442695040888963407u); };
  for (const int64_t range : {int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{1} << 30, int64_t{1} << 50, int64_t{0}}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{20000}, {2, 17001}, {16500, 2}}) {
      std::vector<int64_t> whole;
      std::vector<double> numbers;
      for (int64_t i = 0; i < numel(sizes); ++i) {
        whole.push_back(range == 0 ? next() : static_cast<int64_t>(static_cast<uint64_t>(next()) >> 8) % range - range / 2);
        numbers.push_back(i % 1009 == 0 ? std::numeric_limits<double>::quiet_NaN() : i % 3 == 0 ? -0.0 : static_cast<double>(whole.back()));
      }
      for (const int threads : {1, 3}) {
        for (const bool descending : {false, true}) {
          const int64_t dim = sizes.size() == 2 && sizes[0] > 2 ? 0 : static_cast<int64_t>(sizes.size()) - 1;
          expect_sorted(HostTensor::from_ints(DType::I64, sizes, whole), dim, descending, threads);
          if (sizes.size() == 1) expect_sorted(HostTensor::from_doubles(DType::F64, sizes, numbers), dim, descending, threads);
          if (sizes.size() == 1) expect_sorted(HostTensor::from_doubles(DType::F32, sizes, numbers), dim, descending, threads);
          if (range == 1000) expect_sorted(HostTensor::from_doubles(DType::BF16, sizes, numbers), dim, descending, threads);
        }
      }
    }
  }
}

}  // namespace
}  // namespace toroid
