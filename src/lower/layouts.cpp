#include "lower/layouts.h"

#include <algorithm>

#include "lower/convolutions/convolution_of_bytes.h"
#include "lower/convolutions/deep_convolution.h"
#include "lower/convolutions/phased_convolution.h"
#include "support/match.h"

namespace toroid {

bool is_channels_last_convolution(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  const DType dtype = graph.type(node.outputs[0]).dtype;
  return op != nullptr && !op->transposed && op->stride.size() <= 2 && (dtype == DType::F32 || is_reduced_float(dtype));
}

namespace {

// What decomposition makes of a convolution of codes by filters of one element, or whose zero points are not known
// (formula/quantization/dequantised_convolution.h): a product of integers, whose columns are the channels, scaled and permuted.
bool is_product_of_windows(const Graph& graph, const Node& node) {
  const auto* permute = std::get_if<Permute>(&node.op);
  if (permute == nullptr || permute->dims.size() < 3 || permute->dims[0] != 0) return false;
  const auto rank = static_cast<int>(permute->dims.size());
  for (int d = 1; d < rank; ++d) {
    if (permute->dims[static_cast<size_t>(d)] != (d == 1 ? rank - 1 : d - 1)) return false;
  }
  for (const Node* made = &graph.producer(node.inputs[0]);; made = &graph.producer(made->inputs[0])) {
    if (std::holds_alternative<Matmul>(made->op)) return graph.type(made->outputs[0]).dtype == DType::I32;
    if (!std::holds_alternative<Reshape>(made->op) && !std::holds_alternative<Pointwise>(made->op) &&
        !std::holds_alternative<Cast>(made->op)) {
      return false;
    }
  }
}

}  // namespace

std::vector<bool> channels_last_values(const Graph& graph, bool in_tiles) {
  std::vector<bool> result(graph.num_values());
  // [N, C, ...] as in the input.
  auto keeps_channels = [&](ValueId input, ValueId output) {
    const auto& in = graph.type(input).sizes;
    const auto& out = graph.type(output).sizes;
    return out.size() >= 3 && in.size() >= 3 && sym::known_eq(in[0], out[0]) && sym::known_eq(in[1], out[1]);
  };
  auto follows_inputs = [&](const Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return result[static_cast<size_t>(input)] && keeps_channels(input, node.outputs[0]); });
  };
  // Channels in other places, as when those of groups are shuffled: reshaped, permuted and reshaped to the sizes that they had.
  auto reorders_channels = [&](const Node& node) {
    for (const Node* view = &node;; view = &graph.producer(view->inputs[0])) {
      const ValueId input = view->inputs[0];
      const auto& sizes = graph.type(input).sizes;
      const auto& out = graph.type(node.outputs[0]).sizes;
      if (result[static_cast<size_t>(input)]) {
        return std::equal(sizes.begin(), sizes.end(), out.begin(), out.end(), [](sym::Expr a, sym::Expr b) { return sym::known_eq(a, b); });
      }
      const Op& op = graph.producer(input).op;
      if (!std::holds_alternative<Reshape>(op) && !std::holds_alternative<Permute>(op)) return false;
    }
  };
  for (const Node& node : graph.nodes()) {
    const bool is_in_tiles = in_tiles && (phased_convolution(graph, node) || deep_convolution(graph, node));
    const bool is_of_bytes = is_product_of_windows(graph, node) || is_convolution_of_bytes(graph, node);
    if (is_channels_last_convolution(graph, node) || is_of_bytes || is_in_tiles) {
      result[static_cast<size_t>(node.outputs[0])] = true;
      continue;
    }
    const bool follows = match(node.op, [&](const auto& op) {
      using T = std::decay_t<decltype(op)>;
      constexpr bool is_along = std::is_same_v<T, Pointwise> || std::is_same_v<T, Cast> || std::is_same_v<T, Expand> ||
                                std::is_same_v<T, Reshape> || std::is_same_v<T, Slice> || std::is_same_v<T, Remap> ||
                                std::is_same_v<T, Pad>;
      if constexpr (std::is_same_v<T, Reshape>) {
        if (reorders_channels(node)) return true;
      }
      if constexpr (is_along) return follows_inputs(node);
      if constexpr (std::is_same_v<T, Cat>) {
        const auto rank = graph.type(node.outputs[0]).sizes.size();
        return rank >= 3 &&
               std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return result[static_cast<size_t>(input)]; });
      }
      if constexpr (std::is_same_v<T, Permute>) return op.dims.size() >= 3 && op.dims[0] == 0 && op.dims[1] == 1 && follows_inputs(node);
      if constexpr (std::is_same_v<T, Reduce>) return !op.dims.empty() && op.dims[0] >= 2 && follows_inputs(node);
      return false;
    });
    for (ValueId output : node.outputs) result[static_cast<size_t>(output)] = follows;
  }
  return result;
}

bool are_equal(const std::vector<sym::Expr>& a, const std::vector<sym::Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), sym::known_eq);
}

std::vector<sym::Expr> channels_last_strides(const std::vector<sym::Expr>& sizes) {
  std::vector<sym::Expr> strides(sizes.size());
  sym::Expr stride = sizes[1];
  for (size_t d = sizes.size(); d-- > 2;) {
    strides[d] = stride;
    stride = stride * sizes[d];
  }
  strides[1] = 1;
  strides[0] = stride;
  return strides;
}

std::vector<sym::Expr> filters_innermost_strides(const std::vector<sym::Expr>& sizes) {
  std::vector<sym::Expr> strides(sizes.size());
  strides[0] = 1;
  strides[1] = sizes[0];
  sym::Expr stride = sizes[0] * sizes[1];
  for (size_t d = sizes.size(); d-- > 2;) {
    strides[d] = stride;
    stride = stride * sizes[d];
  }
  return strides;
}

}  // namespace toroid
