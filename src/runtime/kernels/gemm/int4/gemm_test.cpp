// Products with int4 weights by each implementation that takes them, beside sums in double.
#include "runtime/kernels/gemm/int4/gemm.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "base/format.h"
#include "runtime/kernels/gemm/int4/packed_b.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/implementations_for_test.h"

namespace toroid {
namespace {

struct Int4Case {
  const char* name;
  int64_t m, n, k, groups;
};

const Int4Case kInt4Cases[] = {
    {"one row", 1, 96, 128, 4},
    {"few rows, columns that fill no tile", 3, 37, 64, 2},
    {"more rows than are read together", 7, 64, 96, 3},
    {"rows for tiles", 16, 80, 256, 8},
    {"many rows, groups that are no steps", 70, 200, 120, 5},
    {"one group for all", 33, 65, 44, 1},
    {"deep", 40, 70, 2048, 16},
    {"panels for several threads", 130, 600, 64, 2},
    {"no rows", 0, 32, 32, 1},
};

class Int4Product {
 public:
  // Zero points are whole numbers times scales, some of which are 0, or any.
  Int4Product(const Int4Case& row, DType dtype, bool has_whole_zeros = false)
      : c(row), dtype_(dtype), x_(count(c.m * c.k)), bits_(x_.size()), packed_(count(c.n * c.k / 2)) {
    auto random = [seed = uint32_t{1}]() mutable {
      seed = seed * 1664525u + 1013904223u;
      return static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
    };
    for (size_t i = 0; i < x_.size(); ++i) {
      x_[i] = random();
      if (dtype == DType::F32) continue;
      round_row(dtype, &x_[i], 1, &bits_[i]);
      widen_row(dtype, &bits_[i], 1, &x_[i]);
    }
    for (uint8_t& byte : packed_) byte = static_cast<uint8_t>(128 + 127 * random());
    for (std::vector<float>* parameters : {&scales_, &zeros_}) {
      for (int64_t i = 0; i < c.groups * c.n; ++i) parameters->push_back(random());
    }
    for (size_t i = 0; i < zeros_.size() && has_whole_zeros; ++i) {
      scales_[i] = i % 19 == 5 ? 0 : scales_[i];
      zeros_[i] = -(static_cast<float>(i % 17) * scales_[i]);
    }
    sum_in_double();
  }

  // Instead of the first element of the first row.
  void set_first(float value) {
    x_[0] = value;
    if (dtype_ != DType::F32) round_row(dtype_, &value, 1, &bits_[0]);
    sum_in_double();
  }

  void sum_in_double() {
    sums_.clear();
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t p = 0; p < c.k; ++p) {
          const size_t parameter = count(p / (c.k / c.groups) * c.n + j);
          const int number = packed_[count(j * c.k / 2 + p / 2)] >> (p % 2 * 4) & 15;
          const auto x = static_cast<double>(x_[count(i * c.k + p)]);
          const double scaled = number * static_cast<double>(scales_[parameter]), zero = static_cast<double>(zeros_[parameter]);
          sum += x * (scaled + zero);
          magnitude += std::abs(x) * (std::abs(scaled) + std::abs(zero));
        }
        sums_.push_back({sum, magnitude});
      }
    }
  }

  // Each implementation that takes it.
  void check(int threads, bool with_epilogue) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    std::vector<float> y(count(c.m * c.n), std::nanf(""));
    std::vector<uint16_t> narrow(y.size(), 0xffff);
    const int64_t x_sizes[] = {c.m, c.k}, x_strides[] = {c.k, 1}, b_sizes[] = {c.n, c.k / 2}, b_strides[] = {c.k / 2, 1},
                  p_sizes[] = {c.groups, c.n}, p_strides[] = {c.n, 1}, y_sizes[] = {c.m, c.n}, y_strides[] = {c.n, 1};
    constexpr auto kF32 = static_cast<int32_t>(DType::F32), kU8 = static_cast<int32_t>(DType::U8);
    const auto dtype = static_cast<int32_t>(dtype_);
    void* const rows = dtype_ == DType::F32 ? static_cast<void*>(x_.data()) : bits_.data();
    void* const result = with_epilogue ? nullptr : dtype_ == DType::F32 ? static_cast<void*>(y.data()) : narrow.data();
    const ToroidOperand inputs[] = {{rows, x_sizes, x_strides, 2, dtype, 0},
                                    {packed_.data(), b_sizes, b_strides, 2, kU8, 1},
                                    {scales_.data(), p_sizes, p_strides, 2, kF32, 1},
                                    {zeros_.data(), p_sizes, p_strides, 2, kF32, with_epilogue}};
    const ToroidOperand output = {result, y_sizes, y_strides, 2, dtype, 0};
    const ProductOutput to = {y.data(), c.n, nullptr};
    const ToroidEpilogue epilogue = {nullptr,
                                     [](void* argument, void* /*out*/, const float* block, int64_t row_stride, int64_t first_row,
                                        int64_t last_row, int64_t first_column, int64_t last_column) {
                                       const auto& out = *static_cast<const ProductOutput*>(argument);
                                       out.take(block, row_stride, {first_row, last_row}, {first_column, last_column});
                                     },
                                     const_cast<ProductOutput*>(&to),
                                     {}};
    const KernelCall call{pool, inputs, {&output, 1}, {}, {}, with_epilogue ? &epilogue : nullptr, &prepared};
    for_each_implementation("matmul.int4", call, [&](const Implementation& implementation) {
      SCOPED_TRACE(implementation.name);
      y.assign(y.size(), std::nanf(""));
      for (int time = 0; time < 2; ++time) implementation.plan(call)->run(call);
      compare(implementation.name == "tiles", with_epilogue, narrow, y);
    });
  }

 private:
  struct Sum {
    double value, magnitude;
  };
  static size_t count(int64_t n) { return static_cast<size_t>(n); }

  // `y`: the result; where there is neither an epilogue nor float32, `narrow` is. Tiles round the weights to bfloat16.
  void compare(bool in_tiles, bool with_epilogue, const std::vector<uint16_t>& narrow, std::vector<float>& y) const {
    if (dtype_ != DType::F32 && !with_epilogue) widen_row(dtype_, narrow.data(), static_cast<int64_t>(y.size()), y.data());
    const double rounding = with_epilogue || dtype_ == DType::F32 ? 0 : dtype_ == DType::BF16 ? 0x1p-8 : 0x1p-11;
    const double of_weights = in_tiles ? 0x1p-8 : 1e-6;
    for (size_t i = 0; i < y.size(); ++i) {
      const auto [sum, magnitude] = sums_[i];
      if (!std::isfinite(sum)) {
        ASSERT_TRUE(std::isnan(sum) ? std::isnan(y[i]) : static_cast<double>(y[i]) == sum)
            << "element " << i << ": " << y[i] << ", not " << sum;
        continue;
      }
      ASSERT_LE(std::abs(static_cast<double>(y[i]) - sum), magnitude * of_weights + std::abs(sum) * rounding) << "element " << i;
    }
  }

  const Int4Case& c;
  DType dtype_;
  std::vector<float> x_;
  std::vector<uint16_t> bits_;
  std::vector<uint8_t> packed_;
  std::vector<float> scales_ = {}, zeros_ = {};
  std::vector<Sum> sums_ = {};
};

TOROID_ON_MACHINES(Int4Weights);

TEST_P(Int4Weights, ProductsAreRightInEachForm) {
  for (const Int4Case& row : kInt4Cases) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (const bool has_whole_zeros : {false, true}) {
        Int4Product product(row, dtype, has_whole_zeros);
        SCOPED_TRACE(formatted("{}, {}{}", row.name, to_string(dtype), has_whole_zeros ? ", whole zero points" : ""));
        product.check(1, false);
        product.check(3, true);
      }
    }
  }
}

// Of a scale of 3: whole zero points, and those that are none.
TEST(Int4Matrices, SayWhetherZeroPointsAreWhole) {
  for (const auto& [zero, expected] : {std::pair{0.0f, true},
                                       {-3.0f, true},
                                       {-48.0f, true},
                                       {-51.0f, false},
                                       {3.0f, false},
                                       {-3.0000002f, false},
                                       {-1.5f, false},
                                       {INFINITY, false},
                                       {NAN, false}}) {
    const Int4Matrix shape = {32, 1, 32, 1, nullptr};
    std::vector<float> data(static_cast<size_t>(shape.size()));
    data[0] = 3;
    data[kTileSide] = zero;
    EXPECT_EQ(has_whole_zeros({shape.k, shape.n, shape.group, shape.groups, data.data()}, 0, 1), expected) << zero;
    data[0] = 0;
    EXPECT_EQ(has_whole_zeros({shape.k, shape.n, shape.group, shape.groups, data.data()}, 0, 1), zero == 0) << zero << " of no scale";
  }
}

TEST_P(Int4Weights, InfinitiesAndLargeNumbersAreMultipliedAsWhatTheyAre) {
  for (const float value : {INFINITY, -INFINITY, NAN, 1e37f}) {
    for (const size_t row : {size_t{0}, size_t{3}}) {
      Int4Product product(kInt4Cases[row], DType::F32);
      product.set_first(value);
      SCOPED_TRACE(formatted("{} in '{}'", value, kInt4Cases[row].name));
      product.check(2, false);
    }
  }
}

// Of the instruction sets that this machine has.
TEST_P(Int4Weights, LoopsOfAllInstructionSetsAgree) {
  const Int4Matrix shape = {44, 16, 22, 2, nullptr};
  std::vector<float> data(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < 4 * kTileSide; ++i) data[i] = static_cast<float>(i) - 20;
  for (int64_t i = 4 * kTileSide; i < shape.size(); ++i) {
    const uint32_t word = static_cast<uint32_t>(i) * 2654435761u;
    std::memcpy(&data[static_cast<size_t>(i)], &word, sizeof word);
  }
  const Int4Matrix b = {shape.k, shape.n, shape.group, shape.groups, data.data()};
  std::vector<float> x;
  for (int64_t i = 0; i < 4 * b.k; ++i) x.push_back(static_cast<float>(i % 17) - 8);
  const float* rows[4];
  float group_sums[8];
  for (int64_t i = 0; i < 4; ++i) {
    rows[i] = x.data() + i * b.k;
    for (int64_t g = 0; g < 2; ++g) group_sums[2 * i + g] = int4_loops(VectorSet::Baseline).sum(rows[i] + g * b.group, b.group).value;
  }
  auto results = [&](VectorSet set) {
    std::vector<float> result(static_cast<size_t>(b.k * kTileSide + 10 * kTileSide));
    int4_loops(set).widen_rows(b, 0, {0, b.k}, result.data(), kTileSide);
    float* to = result.data() + b.k * kTileSide;
    for (size_t count = 1; count <= 4; ++count, to += static_cast<int64_t>(count - 1) * kTileSide) {
      int4_loops(set).multiply_rows[count - 1](b, 0, rows, group_sums, to, kTileSide);
    }
    return result;
  };
  // Whole numbers, so that no order of sums shows.
  const std::vector<float> expected = results(VectorSet::Baseline);
  for (const VectorSet set : {VectorSet::Avx2, VectorSet::Avx512}) {
    if (vector_set() < set) continue;
    EXPECT_EQ(results(set), expected) << "set " << static_cast<int>(set);
  }
}

}  // namespace
}  // namespace toroid
