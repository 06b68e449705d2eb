// Products of float64 and of integers against the evaluator's.
#include <gtest/gtest.h>

#include "base/format.h"
#include "interp/products.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands_for_test.h"
#include "runtime/kernels/registry/registry.h"

namespace toroid {
namespace {

TOROID_ON_MACHINES(GemmElements);

constexpr DType kDTypes[] = {DType::F64, DType::I64, DType::I32, DType::U32, DType::I16, DType::U16, DType::I8, DType::U8, DType::Bool};

// Small integers, whose float64 products are exact, or integers of all bits, whose products wrap.
HostTensor elements(DType dtype, std::vector<int64_t> sizes, uint32_t seed) {
  std::vector<int64_t> values(static_cast<size_t>(numel(sizes)));
  for (int64_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<int64_t>(seed >> 8) * 0x9e3779b9 - 12345;
    if (is_floating(dtype)) value = value % 1024 - 512;
    if (dtype == DType::Bool) value = value % 7 == 0;
  }
  if (!is_floating(dtype)) return HostTensor::from_ints(dtype, std::move(sizes), values);
  return HostTensor::from_doubles(dtype, std::move(sizes), std::vector<double>(values.begin(), values.end()));
}

// Where the elements of a batch of matrices lie in memory that has room for them.
struct Layout {
  const char* name;
  int64_t row, column, batch;
};
std::vector<Layout> batch_layouts(int64_t rows, int64_t columns) {
  return {{"rows", columns, 1, rows * columns},
          {"columns", 1, rows, rows * columns},
          {"with gaps", columns + 3, 1, rows * (columns + 3)},
          {"every other", 2 * columns, 2, rows * 2 * columns},
          {"columns with gaps", 1, rows + 5, columns * (rows + 5)},
          {"one matrix", columns, 1, 0}};
}

// The elements as the layout says, and what the evaluator reads: the same in rows.
struct Laid {
  HostTensor memory, tensor;
  std::vector<int64_t> strides;
};
Laid lay(DType dtype, int64_t batches, int64_t rows, int64_t columns, const Layout& layout, uint32_t seed) {
  const int64_t room = std::max<int64_t>(1, batches * (2 * rows + 5) * (2 * columns + 5));
  Laid laid = {elements(dtype, {room}, seed), HostTensor(dtype, {batches, rows, columns}), {layout.batch, layout.row, layout.column}};
  const int64_t width = size_bytes(dtype);
  std::byte* to = laid.tensor.mutable_data<std::byte>();
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j, to += width) {
        std::memcpy(to, laid.memory.bytes().data() + (b * layout.batch + i * layout.row + j * layout.column) * width,
                    static_cast<size_t>(width));
      }
    }
  }
  return laid;
}

void check_elements(RuntimePool& pool, DType dtype, int64_t batches, int64_t m, int64_t n, int64_t k, const Layout& of_a,
                    const Layout& of_b, bool is_constant = false) {
  SCOPED_TRACE(formatted("{}: {} x [{}, {}, {}], {} by {}", to_string(dtype), batches, m, n, k, of_a.name, of_b.name));
  const Laid a = lay(dtype, batches, m, k, of_a, 1), b = lay(dtype, batches, k, n, of_b, 2);
  const HostTensor expected = matmul(a.tensor, b.tensor);
  HostTensor actual = elements(dtype, {batches, m, n}, 3);
  Operands operands;
  std::vector<ToroidOperand> inputs = {operands.of(a.tensor, a.strides), operands.of(b.tensor, b.strides)};
  inputs[0].data = const_cast<std::byte*>(a.memory.bytes().data());
  inputs[1].data = const_cast<std::byte*>(b.memory.bytes().data());
  inputs[1].is_constant = is_constant;
  const ToroidOperand output = operands.of(actual);
  PreparedConstants prepared;
  run_library_kernel("matmul", {pool, inputs, {&output, 1}, {}, {}, nullptr, &prepared});
  ASSERT_EQ(std::memcmp(actual.bytes().data(), expected.bytes().data(), actual.bytes().size()), 0);
}

TEST_P(GemmElements, AllSmallShapes) {
  RuntimePool pool(1);
  for (DType dtype : kDTypes) {
    for (int64_t m : {0, 1, 2, 5, 13}) {
      for (int64_t n : {0, 1, 7, 33}) {
        for (int64_t k : {0, 1, 2, 17}) check_elements(pool, dtype, 1, m, n, k, batch_layouts(m, k)[0], batch_layouts(k, n)[0]);
      }
    }
  }
}

TEST_P(GemmElements, AllCombinationsOfStrides) {
  RuntimePool pool(2);
  for (DType dtype : kDTypes) {
    for (const auto& [batches, m, n, k] : {std::array<int64_t, 4>{1, 13, 33, 12}, {3, 5, 9, 31}, {2, 97, 1, 33}, {2, 1, 70, 21}}) {
      for (const Layout& a : batch_layouts(m, k)) {
        for (const Layout& b : batch_layouts(k, n)) check_elements(pool, dtype, batches, m, n, k, a, b);
      }
      check_elements(pool, dtype, 1, m, n, k, batch_layouts(m, k)[0], batch_layouts(k, n)[1], true);
    }
  }
}

// As in gemm_test.cpp.
TEST_P(GemmElements, WholePanelsOfEveryDepth) {
  RuntimePool pool(1);
  for (int64_t around : {4, 128, 1024}) {
    for (int64_t k = around - 3; k < around + 6; ++k)
      check_elements(pool, DType::F64, 1, 71, 32, k, batch_layouts(71, k)[0], batch_layouts(k, 32)[0]);
  }
}

// Past each of the blocking's sizes, and not a multiple of any.
TEST_P(GemmElements, SeveralBlocks) {
  RuntimePool pool(3);
  for (DType dtype : {DType::F64, DType::I64, DType::I32, DType::I8}) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{97, 97, 385}, {1, 1025, 85}, {185, 1, 385}, {61, 70, 1100}, {13, 1099, 5}}) {
      check_elements(pool, dtype, 1, m, n, k, batch_layouts(m, k)[0], batch_layouts(k, n)[0], true);
      check_elements(pool, dtype, 1, m, n, k, batch_layouts(m, k)[1], batch_layouts(k, n)[1]);
    }
  }
}

TEST_P(GemmElements, NanAndInfinityReachOnlyTheirRowsAndColumns) {
  RuntimePool pool(1);
  constexpr int64_t kSize = 29;
  HostTensor a = elements(DType::F64, {kSize, kSize}, 3), actual(DType::F64, {kSize, kSize});
  HostTensor b = HostTensor::from_doubles(DType::F64, {kSize, kSize}, std::vector<double>(kSize * kSize, 1.0));
  a.mutable_data<double>()[3 * kSize + 4] = std::nan("");
  a.mutable_data<double>()[5 * kSize + 6] = HUGE_VAL;
  actual.mutable_data<double>();
  Operands operands;
  const ToroidOperand inputs[] = {operands.of(a), operands.of(b)}, output = operands.of(actual);
  run_library_kernel("matmul", {pool, inputs, {&output, 1}, {}, {}});
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t j = 0; j < kSize; ++j) {
      EXPECT_EQ(std::isnan(actual.double_at(i * kSize + j)), i == 3);
      EXPECT_EQ(std::isinf(actual.double_at(i * kSize + j)), i == 5);
    }
  }
}

}  // namespace
}  // namespace toroid
