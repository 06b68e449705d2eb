// The runtime's convolutions against the evaluator's plain loops.
#include "runtime/kernels/registry/library.h"

#include <atomic>
#include <cstring>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/format.h"
#include "interp/compare.h"
#include "interp/products.h"
#include "library/library_ops.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/operands_for_test.h"

namespace toroid {
namespace {

struct ConvolutionCase {
  const char* name;
  std::vector<int64_t> x, weight, out;
  ConvolutionSizes how;
  bool bias = false;
};

// Lists: stride, padding, dilation.
const ConvolutionCase kConvolutions[] = {
    {"plain", {2, 3, 7, 9}, {4, 3, 3, 3}, {2, 4, 5, 7}, {{1, 1}, {0, 0}, {1, 1}}},
    {"bias", {2, 3, 7, 9}, {4, 3, 3, 3}, {2, 4, 5, 7}, {{1, 1}, {0, 0}, {1, 1}}, true},
    {"padding wider than the filter", {1, 2, 3, 3}, {3, 2, 2, 2}, {1, 3, 8, 8}, {{1, 1}, {3, 3}, {1, 1}}},
    {"stride", {1, 3, 11, 8}, {5, 3, 3, 2}, {1, 5, 3, 4}, {{3, 2}, {0, 0}, {1, 1}}},
    {"stride, padding and dilation", {2, 2, 12, 13}, {3, 2, 3, 3}, {2, 3, 6, 5}, {{2, 2}, {2, 1}, {2, 3}}},
    {"one by one", {2, 6, 5, 5}, {4, 6, 1, 1}, {2, 4, 5, 5}, {{1, 1}, {0, 0}, {1, 1}}},
    {"one by one of one image", {1, 6, 5, 5}, {4, 6, 1, 1}, {1, 4, 5, 5}, {{1, 1}, {0, 0}, {1, 1}}},
    {"one by one with stride", {2, 6, 5, 5}, {4, 6, 1, 1}, {2, 4, 3, 3}, {{2, 2}, {0, 0}, {1, 1}}},
    {"groups", {2, 6, 5, 5}, {4, 3, 3, 3}, {2, 4, 3, 3}, {{1, 1}, {0, 0}, {1, 1}, false, 2}, true},
    {"depthwise", {2, 5, 7, 6}, {5, 1, 3, 3}, {2, 5, 7, 6}, {{1, 1}, {1, 1}, {1, 1}, false, 5}, true},
    {"depthwise with a multiplier", {1, 3, 9, 9}, {6, 1, 3, 3}, {1, 6, 4, 3}, {{2, 3}, {0, 1}, {1, 2}, false, 3}},
    {"one channel", {1, 1, 6, 6}, {1, 1, 3, 3}, {1, 1, 4, 4}, {{1, 1}, {0, 0}, {1, 1}}},
    {"one dimension", {2, 3, 17}, {4, 3, 5}, {2, 4, 8}, {{2}, {1}, {1}}, true},
    {"filter without rows", {3, 2, 2, 15}, {4, 2, 0, 7}, {3, 4, 4, 3}, {{1, 1}, {0, 0}, {2, 2}}},
    {"depthwise in one dimension", {2, 4, 17}, {4, 1, 4}, {2, 4, 20}, {{1}, {3}, {1}, false, 4}},
    {"three dimensions", {1, 2, 5, 6, 7}, {3, 2, 2, 3, 2}, {1, 3, 4, 3, 4}, {{1, 2, 2}, {0, 1, 1}, {1, 1, 2}}, true},
    {"transposed", {2, 3, 4, 5}, {3, 2, 3, 3}, {2, 2, 6, 7}, {{1, 1}, {0, 0}, {1, 1}, true}, true},
    {"transposed with stride and padding", {1, 4, 3, 5}, {4, 3, 3, 2}, {1, 3, 5, 8}, {{2, 2}, {1, 1}, {1, 1}, true}},
    {"transposed with output padding", {1, 4, 3, 5}, {4, 3, 3, 2}, {1, 3, 6, 9}, {{2, 2}, {1, 1}, {1, 1}, true}},
    {"transposed with groups and dilation", {2, 4, 5, 4}, {4, 3, 3, 2}, {2, 6, 9, 6}, {{1, 1}, {0, 0}, {2, 2}, true, 2}, true},
    {"transposed depthwise", {2, 3, 4, 4}, {3, 1, 2, 2}, {2, 3, 8, 8}, {{2, 2}, {0, 0}, {1, 1}, true, 3}},
    {"transposed in one dimension", {2, 3, 6}, {3, 4, 4}, {2, 4, 14}, {{2}, {0}, {1}, true}},
    {"transposed in three dimensions", {1, 2, 3, 2, 3}, {2, 2, 2, 3, 2}, {1, 2, 6, 3, 6}, {{2, 1, 2}, {0, 0, 0}, {1, 1, 1}, true}},
    {"no rows", {0, 3, 7, 9}, {4, 3, 3, 3}, {0, 4, 5, 7}, {{1, 1}, {0, 0}, {1, 1}}},
};

// Integers of all bits, whose sums wrap.
HostTensor elements_of(DType dtype, std::vector<int64_t> sizes, uint32_t seed) {
  if (is_floating(dtype)) return random_tensor(dtype, std::move(sizes), seed);
  std::vector<int64_t> values(static_cast<size_t>(numel(sizes)));
  for (int64_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<int64_t>(seed * uint64_t{0x9e3779b9});
  }
  return HostTensor::from_ints(dtype, std::move(sizes), values);
}

TEST(RuntimeConvolution, IsTheEvaluators) {
  RuntimePool pool(2);
  for (const ConvolutionCase& row : kConvolutions) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F64, DType::I64, DType::I32, DType::I16, DType::U16, DType::I8, DType::U8}) {
      SCOPED_TRACE(formatted("{}, {}", row.name, to_string(dtype)));
      const HostTensor x = elements_of(dtype, row.x, 1);
      const HostTensor weight = elements_of(dtype, row.weight, 2);
      const HostTensor bias = elements_of(dtype, {row.out[1]}, 3);
      const HostTensor expected = convolution(x, weight, row.bias ? &bias : nullptr, row.how, row.out);
      HostTensor actual(dtype, row.out);
      actual.mutable_data<std::byte>();
      Operands operands;
      std::vector<ToroidOperand> inputs = {operands.of(x), operands.of(weight)};
      if (row.bias) inputs.push_back(operands.of(bias));
      const std::vector<ToroidOperand> outputs = {operands.of(actual)};
      std::vector<int64_t> integers = {row.how.transposed, row.how.groups};
      for (const auto* list : {&row.how.stride, &row.how.padding, &row.how.dilation}) {
        integers.insert(integers.end(), list->begin(), list->end());
      }
      integers.resize(integers.size() + row.how.stride.size());  // output padding: the output's sizes tell
      run_library_kernel("convolution", {pool, inputs, outputs, integers, {}});
      if (!is_floating(dtype)) {
        EXPECT_EQ(std::memcmp(actual.bytes().data(), expected.bytes().data(), actual.bytes().size()), 0);
      } else {
        EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt);
      }
      if (dtype != DType::BF16) continue;
      // What is made of constants is made once.
      PreparedConstants prepared;
      inputs[1].is_constant = 1;
      int64_t kept = 0;
      for (int time = 0; time < 2; ++time) {
        run_library_kernel("convolution", {pool, inputs, outputs, integers, {}, nullptr, &prepared});
        EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt);
        if (time == 0) kept = prepared.bytes();
      }
      EXPECT_EQ(kept > 0, numel(row.weight) > 0 && numel(row.out) > 0);
      EXPECT_EQ(prepared.bytes(), kept);
    }
  }
}

// Past the sizes at which rows, panels and runs are cut.
const ConvolutionCase kLargerConvolutions[] = {
    {"many channels", {1, 70, 9, 13}, {150, 70, 3, 3}, {1, 150, 9, 13}, {{1, 1}, {1, 1}, {1, 1}}},
    {"more depth than is taken at a time", {1, 1100, 4, 5}, {17, 1100, 1, 1}, {1, 17, 4, 5}, {{1, 1}, {0, 0}, {1, 1}}},
    {"deep with padding", {2, 260, 5, 6}, {20, 260, 3, 3}, {2, 20, 5, 6}, {{1, 1}, {1, 1}, {1, 1}}},
    {"three colours", {2, 3, 37, 41}, {40, 3, 7, 7}, {2, 40, 19, 21}, {{2, 2}, {3, 3}, {1, 1}}},
    {"patches", {1, 3, 32, 48}, {65, 3, 16, 16}, {1, 65, 2, 3}, {{16, 16}, {0, 0}, {1, 1}}},
    {"long rows", {1, 5, 3, 700}, {6, 5, 3, 3}, {1, 6, 3, 700}, {{1, 1}, {1, 1}, {1, 1}}},
    {"groups of several channels", {2, 36, 8, 8}, {72, 9, 3, 3}, {2, 72, 4, 4}, {{2, 2}, {1, 1}, {1, 1}, false, 4}},
    {"wide depthwise", {2, 83, 12, 11}, {83, 1, 5, 5}, {2, 83, 6, 6}, {{2, 2}, {2, 2}, {1, 1}, false, 83}},
    {"depthwise with dilation", {1, 40, 20, 9}, {40, 1, 3, 3}, {1, 40, 20, 5}, {{1, 1}, {3, 1}, {3, 3}, false, 40}},
    {"depthwise of few rows", {1, 200, 7, 7}, {200, 1, 5, 5}, {1, 200, 7, 7}, {{1, 1}, {2, 2}, {1, 1}, false, 200}},
    {"depthwise of few rows with dilation", {1, 150, 5, 9}, {150, 1, 3, 3}, {1, 150, 5, 9}, {{1, 1}, {2, 2}, {2, 2}, false, 150}},
    {"thirteen tiles of pixels", {1, 112, 14, 14}, {200, 112, 1, 1}, {1, 200, 14, 14}, {{1, 1}, {0, 0}, {1, 1}}},
    {"groups of two", {1, 38, 5, 9}, {38, 2, 2, 2}, {1, 38, 4, 8}, {{1, 1}, {0, 0}, {1, 1}, false, 19}},
    {"groups of four with dilation", {2, 52, 9, 14}, {52, 4, 3, 3}, {2, 52, 9, 7}, {{1, 2}, {2, 1}, {2, 1}, false, 13}},
    {"groups of eight", {1, 104, 7, 15}, {104, 8, 3, 3}, {1, 104, 7, 15}, {{1, 1}, {1, 1}, {1, 1}, false, 13}},
    {"groups of eight, wide filter", {1, 24, 11, 12}, {24, 8, 5, 5}, {1, 24, 6, 6}, {{2, 2}, {2, 2}, {1, 1}, false, 3}},
    {"groups of sixteen", {1, 48, 8, 13}, {48, 16, 3, 3}, {1, 48, 4, 7}, {{2, 2}, {1, 1}, {1, 1}, false, 3}},
    {"groups of 24, half as many in", {1, 36, 9, 9}, {72, 12, 3, 3}, {1, 72, 9, 9}, {{1, 1}, {1, 1}, {1, 1}, false, 3}},
    {"groups of 40 with dilation", {2, 80, 8, 23}, {80, 40, 3, 2}, {2, 80, 8, 22}, {{1, 1}, {2, 1}, {2, 3}, false, 2}},
    {"groups in one dimension", {2, 24, 37}, {24, 8, 3}, {2, 24, 37}, {{1}, {1}, {1}, false, 3}},
    {"depthwise with eight channels", {2, 8, 9, 30}, {8, 1, 3, 3}, {2, 8, 9, 30}, {{1, 1}, {1, 1}, {1, 1}, false, 8}},
    {"depthwise with twelve channels", {1, 12, 9, 30}, {12, 1, 3, 3}, {1, 12, 5, 15}, {{2, 2}, {1, 1}, {1, 1}, false, 12}},
    {"groups of four, two of them", {1, 8, 9, 11}, {8, 4, 3, 3}, {1, 8, 9, 11}, {{1, 1}, {1, 1}, {1, 1}, false, 2}},
    {"depthwise, filter beyond the image", {1, 20, 3, 2}, {20, 1, 7, 7}, {1, 20, 3, 2}, {{1, 1}, {3, 3}, {1, 1}, false, 20}},
};

// The same values with channels innermost in memory, and their strides in the order of the sizes.
std::pair<HostTensor, std::vector<int64_t>> channels_innermost(const HostTensor& x) {
  const std::vector<int64_t>& sizes = x.sizes();
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = sizes[1];
  for (size_t d = sizes.size(); d-- > 2; stride *= sizes[d]) strides[d] = stride;
  strides[1] = 1;
  strides[0] = stride;
  HostTensor result(x.dtype(), sizes);
  auto* to = result.mutable_data<float>();
  const auto* from = x.data<float>();
  std::vector<int64_t> index(sizes.size());
  for (int64_t i = 0; i < numel(sizes); ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) at += rest % sizes[d] * strides[d];
    to[at] = from[i];
  }
  return {std::move(result), strides};
}

// Writes a product's blocks, each element plus 1, and counts how often each is given.
struct PlusOne {
  float* out;
  int64_t row;
  std::vector<std::atomic<int>> given;
  ToroidEpilogue epilogue() {
    return {nullptr,
            [](void* argument, void* /*out*/, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row,
               int64_t first_column, int64_t last_column) {
              PlusOne& to = *static_cast<PlusOne*>(argument);
              for (int64_t i = first_row; i < last_row; ++i) {
                for (int64_t j = first_column; j < last_column; ++j) {
                  to.out[i * to.row + j] = block[(i - first_row) * row_stride + j - first_column] + 1;
                  ++to.given[static_cast<size_t>(i * to.row + j)];
                }
              }
            },
            this,
            {}};
  }
};

void expect_convolution_to_channels_last(const ConvolutionCase& row, bool from_channels_last, bool is_constant, bool has_epilogue) {
  SCOPED_TRACE(formatted("{}, from {}, {}, {}", row.name, from_channels_last ? "channels last" : "planes",
                         is_constant ? "constant" : "computed", has_epilogue ? "with an epilogue" : "alone"));
  RuntimePool pool(2);
  PreparedConstants prepared;
  const HostTensor x = random_tensor(DType::F32, row.x, 1);
  const HostTensor weight = random_tensor(DType::F32, row.weight, 2);
  HostTensor planes = convolution(x, weight, nullptr, row.how, row.out);
  if (has_epilogue) {
    for (int64_t i = 0; i < numel(row.out); ++i) planes.mutable_data<float>()[i] += 1;
  }
  const auto [expected, strides] = channels_innermost(planes);
  HostTensor actual(DType::F32, row.out);
  PlusOne plus_one = {actual.mutable_data<float>(), row.out[1], std::vector<std::atomic<int>>(static_cast<size_t>(numel(row.out)))};
  const ToroidEpilogue epilogue = plus_one.epilogue();
  Operands operands;
  const auto [x_last, x_strides] = channels_innermost(x);
  std::vector<ToroidOperand> inputs = {from_channels_last ? operands.of(x_last, x_strides) : operands.of(x), operands.of(weight)};
  inputs[1].is_constant = is_constant;
  std::vector<ToroidOperand> outputs = {operands.of(actual, strides)};
  if (has_epilogue) outputs[0].data = nullptr;
  std::vector<int64_t> integers = {row.how.transposed, row.how.groups};
  for (const auto* list : {&row.how.stride, &row.how.padding, &row.how.dilation})
    integers.insert(integers.end(), list->begin(), list->end());
  integers.resize(integers.size() + row.how.stride.size());
  for (int i = 0; i < (is_constant ? 2 : 1); ++i) {
    run_library_kernel("convolution", {pool, inputs, outputs, integers, {}, has_epilogue ? &epilogue : nullptr, &prepared});
  }
  EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt);
  EXPECT_EQ(prepared.bytes() > 0, is_constant && numel(row.out) > 0 && numel(row.weight) > 0);
  if (!has_epilogue) return;
  for (const auto& each : plus_one.given) ASSERT_EQ(each, is_constant ? 2 : 1);
}

TEST(RuntimeConvolution, ToChannelsLastIsTheEvaluators) {
  auto check = [](const ConvolutionCase& row) {
    if (row.how.transposed || row.how.stride.size() > 2) return;
    for (int variant = 0; variant < 8; ++variant) {
      expect_convolution_to_channels_last(row, (variant & 1) != 0, (variant & 2) != 0, (variant & 4) != 0);
    }
  };
  for (const ConvolutionCase& row : kConvolutions) check(row);
  for (const ConvolutionCase& row : kLargerConvolutions) check(row);
}

struct MatmulCase {
  const char* name;
  std::vector<int64_t> a, b, out;
};
const MatmulCase kMatmuls[] = {
    {"small", {5, 7}, {7, 9}, {5, 9}},
    {"one row", {1, 300}, {300, 70}, {1, 70}},
    {"several blocks", {200, 1030}, {1030, 140}, {200, 140}},
    {"rows a page apart", {40, 1024}, {1024, 600}, {40, 600}},
    {"a batch", {3, 20, 30}, {3, 30, 17}, {3, 20, 17}},
    {"large matrices in a batch", {2, 260, 260}, {2, 260, 260}, {2, 260, 260}},
    {"nothing to sum", {4, 0}, {0, 6}, {4, 6}},
    {"no rows", {0, 4}, {4, 6}, {0, 6}},
};

TEST(RuntimeMatmul, WithConstantsAndEpiloguesIsTheEvaluators) {
  RuntimePool pool(2);
  for (const MatmulCase& row : kMatmuls) {
    const HostTensor a = random_tensor(DType::F32, row.a, 1), b = random_tensor(DType::F32, row.b, 2);
    HostTensor expected = matmul(a, b);
    for (int64_t i = 0; i < numel(row.out); ++i) expected.mutable_data<float>()[i] += 1;
    for (const bool is_turned : {false, true}) {
      for (const bool is_constant : {false, true}) {
        SCOPED_TRACE(formatted("{}{}{}", row.name, is_turned ? ", turned" : "", is_constant ? ", constant" : ""));
        PreparedConstants prepared;
        Operands operands;
        HostTensor turned(DType::F32, row.b);  // columns contiguous
        const size_t rank = row.b.size();
        const int64_t k = row.b[rank - 2], n = row.b[rank - 1];
        for (int64_t i = 0; i < numel(row.b); ++i) {
          turned.mutable_data<float>()[i / (k * n) * k * n + i % n * k + i / n % k] = b.data<float>()[i];
        }
        std::vector<int64_t> strides = {1, k};
        if (rank == 3) strides.insert(strides.begin(), k * n);
        std::vector<ToroidOperand> inputs = {operands.of(a), is_turned ? operands.of(turned, strides) : operands.of(b)};
        inputs[1].is_constant = is_constant;
        HostTensor actual(DType::F32, row.out);
        PlusOne plus_one = {actual.mutable_data<float>(), n, std::vector<std::atomic<int>>(static_cast<size_t>(numel(row.out)))};
        const ToroidEpilogue epilogue = plus_one.epilogue();
        std::vector<ToroidOperand> outputs = {operands.of(actual)};
        outputs[0].data = nullptr;
        run_library_kernel("matmul", {pool, inputs, outputs, {}, {}, &epilogue, &prepared});
        EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt);
        for (const auto& each : plus_one.given) ASSERT_EQ(each, 1);
      }
    }
  }
}

// The same values in 16 bits, with either strides of the right operand.
void expect_reduced_matmul(const MatmulCase& row, DType dtype, bool is_turned, bool is_constant, bool has_epilogue) {
  SCOPED_TRACE(formatted("{}, {}{}{}{}", row.name, to_string(dtype), is_turned ? ", turned" : "", is_constant ? ", constant" : "",
                         has_epilogue ? ", with an epilogue" : ""));
  RuntimePool pool(2);
  PreparedConstants prepared;
  const HostTensor a = random_tensor(dtype, row.a, 1), b = random_tensor(dtype, row.b, 2);
  const HostTensor expected = matmul(a, b);
  const size_t rank = row.b.size();
  const int64_t k = row.b[rank - 2], n = row.b[rank - 1];
  HostTensor turned(dtype, row.b);
  for (int64_t i = 0; i < numel(row.b); ++i) {
    turned.mutable_data<uint16_t>()[i / (k * n) * k * n + i % n * k + i / n % k] = b.data<uint16_t>()[i];
  }
  std::vector<int64_t> strides = {1, k};
  if (rank == 3) strides.insert(strides.begin(), k * n);
  Operands operands;
  std::vector<ToroidOperand> inputs = {operands.of(a), is_turned ? operands.of(turned, strides) : operands.of(b)};
  inputs[1].is_constant = is_constant;
  HostTensor actual(dtype, row.out), wide(DType::F32, row.out);
  PlusOne plus_one = {wide.mutable_data<float>(), n, std::vector<std::atomic<int>>(static_cast<size_t>(numel(row.out)))};
  const ToroidEpilogue epilogue = plus_one.epilogue();
  actual.mutable_data<std::byte>();
  std::vector<ToroidOperand> outputs = {operands.of(actual)};
  run_library_kernel("matmul", {pool, inputs, outputs, {}, {}, has_epilogue ? &epilogue : nullptr, &prepared});
  if (has_epilogue) {
    std::vector<double> values;
    for (int64_t i = 0; i < numel(row.out); ++i) values.push_back(wide.data<float>()[i] - 1);
    actual = HostTensor::from_doubles(dtype, row.out, values);
    for (const auto& each : plus_one.given) ASSERT_EQ(each, 1);
  }
  EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt);
}

TEST(RuntimeMatmul, OfReducedFloatsIsTheEvaluators) {
  for (const MatmulCase& row : kMatmuls) {
    for (int variant = 0; variant < 16; ++variant) {
      expect_reduced_matmul(row, (variant & 1) != 0 ? DType::BF16 : DType::F16, (variant & 2) != 0, (variant & 4) != 0, (variant & 8) != 0);
    }
  }
}

TEST(LibraryKernels, AllOfTheLibraryAreLinked) {
  for (const LibraryOp& op : library_ops()) EXPECT_NE(find_linked_kernel(formatted("library.{}", op.name)), nullptr) << op.name;
}

TEST(LibraryKernels, AreNamedByWhatDecidesTheirCode) {
  const struct {
    const char* kernel;
    std::vector<DType> inputs;
    DType output;
    const char* name;
  } rows[] = {
      {"matmul", {DType::F32, DType::F32}, DType::F32, "matmul.f32"},
      {"matmul", {DType::BF16, DType::I8}, DType::BF16, "matmul.int8"},
      {"matmul", {DType::U8, DType::I8}, DType::I32, "matmul.bytes"},
      {"matmul", {DType::I8, DType::I8}, DType::I8, "matmul.integers"},
      {"matmul", {DType::F32, DType::U8, DType::F32, DType::F32}, DType::F32, "matmul.int4"},
      {"convolution", {DType::F16, DType::F16}, DType::F32, "convolution.f16"},
      {"convolution", {DType::U8, DType::I8}, DType::I32, "convolution.bytes"},
      {"convolution", {DType::I64, DType::I64}, DType::I64, "convolution.columns"},
      {"chain", {}, DType::F32, "chain"},
      {"chain", {}, DType::BF16, "chain.bf16"},
      {"attention", {DType::F64, DType::F64, DType::F64}, DType::F64, "attention.f64"},
      {"sort", {DType::I64}, DType::I64, "sort"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(linked_name(row.kernel, row.inputs, row.output), row.name);
    EXPECT_NE(find_linked_kernel(row.name), nullptr) << row.name;
  }
}

TEST(LibraryKernels, AnUnknownNameIsRefused) {
  RuntimePool pool(1);
  try {
    run_library_kernel("library.no_such_thing", {pool, {}, {}, {}, {}});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "library kernel 'library.no_such_thing' is not available");
  }
}

}  // namespace
}  // namespace toroid
