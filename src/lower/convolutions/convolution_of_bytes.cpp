#include "lower/convolutions/convolution_of_bytes.h"

#include <variant>

namespace toroid {
namespace {

bool is_cast_from(const Graph& graph, ValueId id, DType dtype) {
  const Node& node = graph.producer(id);
  return std::holds_alternative<Cast>(node.op) && graph.type(node.inputs[0]).dtype == dtype;
}

}  // namespace

bool is_convolution_of_bytes(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Convolution>(&node.op);
  return op != nullptr && !op->transposed && op->stride.size() <= 2 && node.inputs.size() == 2 &&
         graph.type(node.outputs[0]).dtype == DType::I32 && is_cast_from(graph, node.inputs[0], DType::U8) &&
         is_cast_from(graph, node.inputs[1], DType::I8);
}

}  // namespace toroid
