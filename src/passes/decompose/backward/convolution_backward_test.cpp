// The input's gradient of a stride of 1 by a convolution with flipped filters, beside that by a transposed convolution.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

struct TurnedCase {
  std::vector<int64_t> grad, x, weight;
  std::string_view geometry;  // stride to groups, as the operator takes them
  bool is_flipped;
};

const TurnedCase kTurnedCases[] = {
    {{2, 4, 5, 3}, {2, 3, 5, 4}, {4, 3, 3, 2}, "[1, 1], [1, 0], [1, 1], false, [0, 0], 1", true},
    {{2, 4, 4, 4}, {2, 6, 6, 5}, {4, 3, 2, 2}, "[1, 1], [0, 0], [2, 1], false, [0, 0], 2", true},
    {{1, 6, 7}, {1, 3, 7}, {6, 1, 3}, "[1], [1], [1], false, [0], 3", true},
    {{1, 2, 8}, {1, 3, 6}, {2, 3, 1}, "[1], [1], [1], false, [0], 1", false},  // more padding than the filter reaches
    {{1, 2, 3}, {1, 3, 6}, {2, 3, 2}, "[2], [0], [1], false, [0], 1", true},
    {{2, 4, 4, 4}, {2, 3, 7, 8}, {4, 3, 3, 3}, "[2, 2], [1, 1], [1, 1], false, [0, 0], 1", true},
    {{2, 4, 3, 7}, {2, 3, 6, 7}, {4, 3, 1, 1}, "[2, 1], [0, 0], [1, 1], false, [0, 0], 1", true},
    {{2, 6, 4, 3}, {2, 3, 9, 9}, {6, 1, 2, 5}, "[2, 2], [0, 0], [1, 1], false, [0, 0], 3", true},
    {{2, 4, 6, 4}, {2, 3, 7, 5}, {4, 3, 5, 4}, "[2, 2], [4, 3], [1, 1], false, [0, 0], 1", true},
    {{1, 2, 3}, {1, 3, 10}, {2, 3, 2}, "[4], [0], [1], false, [0], 1", true},
    {{1, 2, 2}, {1, 3, 7}, {2, 3, 2}, "[5], [0], [1], false, [0], 1", false},
    {{1, 2, 3}, {1, 3, 7}, {2, 3, 2}, "[2], [0], [2], false, [0], 1", false},
};

std::string f64(const std::vector<int64_t>& sizes) { return fmt::format("f64[{}]", fmt::join(sizes, ", ")); }

HostTensor saw_teeth(const std::vector<int64_t>& sizes, DType dtype = DType::F64) {
  std::vector<double> values(static_cast<size_t>(numel(sizes)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 37) % 101) / 50 - 1;
  return HostTensor::from_doubles(dtype, sizes, values);
}

TEST(ConvolutionBackward, TurnedFiltersGiveWhatTransposedConvolutionsDo) {
  for (const TurnedCase& row : kTurnedCases) {
    SCOPED_TRACE(row.geometry);
    const std::vector<HostTensor> inputs = {saw_teeth(row.grad), saw_teeth(row.x), saw_teeth(row.weight)};
    std::vector<HostTensor> results;
    for (const bool flips_filters : {false, true}) {
      Program program = parse_text(
          fmt::format("graph(g: {0}, x: {1}, w: {2}) {{\n"
                      "  d: {1}, e: {2}, f: f64[] = aten::convolution_backward(g, x, w, [0], {3}, [true, true, false])\n  return d\n}}\n",
                      f64(row.grad), f64(row.x), f64(row.weight), row.geometry));
      decompose(program, {.flips_filters = flips_filters});
      verify(program, Level::Core);
      const bool is_transposed = std::ranges::any_of(program.graph.nodes(), [](const Node& node) {
        const auto* convolution = std::get_if<Convolution>(&node.op);
        return convolution != nullptr && convolution->transposed;
      });
      EXPECT_EQ(is_transposed, !(flips_filters && row.is_flipped));
      results.push_back(evaluate(program, inputs)[0]);
    }
    EXPECT_EQ(difference(results[1], results[0], {.sums_or_products = true}), std::nullopt);
  }
}

struct KernelCase {
  std::vector<int64_t> grad, x, weight;
  std::string_view geometry;
  bool has_kernel;
};

const KernelCase kKernelCases[] = {
    {{2, 4, 5, 3}, {2, 3, 5, 4}, {4, 3, 3, 2}, "[1, 1], [1, 0], [1, 1], false, [0, 0], 1", true},
    {{2, 4, 2, 3}, {2, 3, 6, 5}, {4, 3, 2, 3}, "[3, 2], [1, 1], [2, 1], false, [0, 0], 1", true},
    {{1, 18, 7}, {1, 18, 7}, {18, 9, 3}, "[1], [1], [1], false, [0], 2", true},
    {{2, 3, 9, 8}, {2, 4, 5, 4}, {4, 3, 3, 2}, "[2, 2], [1, 1], [1, 2], true, [0, 1], 1", true},
    {{1, 18, 7}, {1, 18, 7}, {18, 1, 3}, "[1], [1], [1], false, [0], 18", true},
    {{1, 18, 7}, {1, 6, 7}, {18, 1, 3}, "[1], [1], [1], false, [0], 6", false},
    {{1, 2, 3, 3, 3}, {1, 2, 3, 3, 3}, {2, 2, 1, 1, 1}, "[1, 1, 1], [0, 0, 0], [1, 1, 1], false, [0, 0, 0], 1", false},
};

TEST(ConvolutionBackward, TheKernelGivesWhatAConvolutionDoes) {
  for (const KernelCase& row : kKernelCases) {
    SCOPED_TRACE(row.geometry);
    const auto f32 = [](const std::vector<int64_t>& sizes) { return fmt::format("f32[{}]", fmt::join(sizes, ", ")); };
    std::vector<HostTensor> inputs, results;
    for (const auto* sizes : {&row.grad, &row.x, &row.weight}) inputs.push_back(saw_teeth(*sizes, DType::F32));
    for (const bool has_backward_weights : {false, true}) {
      Program program =
          parse_text(fmt::format("graph(g: {}, x: {}, w: {}) {{\n  d: f32[], e: {}, f: f32[] = aten::convolution_backward(g, x, w, [0], "
                                 "{}, [false, true, false])\n"
                                 "  return e\n}}\n",
                                 f32(row.grad), f32(row.x), f32(row.weight), f32(row.weight), row.geometry));
      decompose(program, {.has_backward_weights = has_backward_weights});
      verify(program, Level::Core);
      const bool has_kernel =
          std::ranges::any_of(program.graph.nodes(), [](const Node& node) { return is_library(node.op, "convolution.backward_weights"); });
      EXPECT_EQ(has_kernel, has_backward_weights && row.has_kernel);
      results.push_back(evaluate(program, inputs)[0]);
    }
    EXPECT_EQ(difference(results[1], results[0], {.sums_or_products = true}), std::nullopt);
  }
}

}  // namespace
}  // namespace toroid
