#include "lower/convolutions/depthwise_of_bytes.h"

#include <algorithm>

#include "formula/quantization/dequantised_convolution.h"

namespace toroid {
namespace {

bool is_byte(DType dtype) { return dtype == DType::I8 || dtype == DType::U8; }

// What a cast from bytes reads.
std::optional<ValueId> bytes_of(const Graph& graph, ValueId id) {
  const Node& node = graph.producer(id);
  if (!std::holds_alternative<Cast>(node.op) || !is_byte(graph.type(node.inputs[0]).dtype)) return std::nullopt;
  return node.inputs[0];
}

}  // namespace

std::optional<DepthwiseOfBytes> depthwise_of_bytes(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  if (op == nullptr || op->transposed || op->stride.size() > 2 || node.inputs.size() != 2) return std::nullopt;
  const TensorType &result = graph.type(node.outputs[0]), &image = graph.type(node.inputs[0]), &weight = graph.type(node.inputs[1]);
  if (result.dtype != DType::I32 || !sym::known_eq(op->groups, image.sizes[1]) || !sym::known_eq(op->groups, result.sizes[1])) {
    return std::nullopt;
  }
  if (!std::all_of(op->padding.begin(), op->padding.end(), [](sym::Expr padding) { return padding.is_const(0); })) return std::nullopt;
  const std::optional<ValueId> bytes = bytes_of(graph, node.inputs[0]);
  if (!bytes || !bytes_of(graph, node.inputs[1])) return std::nullopt;
  DepthwiseOfBytes it{*bytes, {}};
  int64_t all = 1;
  for (size_t d = 2; d < weight.sizes.size(); ++d) {
    if (!weight.sizes[d].is_const() || weight.sizes[d].value() < 1 || weight.sizes[d].value() > formula::kMostDepthwiseTaps)
      return std::nullopt;
    all *= it.taps.emplace_back(weight.sizes[d].value());
  }
  return all <= formula::kMostDepthwiseTaps ? std::optional(it) : std::nullopt;
}

loop::ExprId depthwise_sum(loop::ExprTable& exprs, const Convolution& op, const DepthwiseOfBytes& it, const std::vector<sym::Expr>& axes,
                           const LoadAt& image, const LoadAt& weight) {
  const size_t dims = it.taps.size();
  std::optional<loop::ExprId> sum;
  std::vector<int64_t> tap(dims, 0);
  for (bool is_done = false; !is_done;) {
    std::vector<sym::Expr> of_image = {axes[0], axes[1]}, of_weight = {axes[1], 0};
    for (size_t d = 0; d < dims; ++d) {
      of_image.push_back(axes[d + 2] * op.stride[d] + op.dilation[d] * tap[d]);
      of_weight.emplace_back(tap[d]);
    }
    const loop::ExprId product = exprs.compute(ScalarOp::Mul, {exprs.convert(image(of_image), DType::I32), weight(of_weight)});
    sum = sum ? exprs.compute(ScalarOp::Add, {*sum, product}) : product;
    is_done = true;
    for (size_t d = dims; d-- > 0 && is_done;) {
      is_done = ++tap[d] == it.taps[d];
      if (is_done) tap[d] = 0;
    }
  }
  return *sum;
}

}  // namespace toroid
