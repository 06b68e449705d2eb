#include "passes/attention/softmax_pattern.h"

namespace toroid {
namespace {

const Node* pointwise(const Graph& graph, ValueId id, ScalarOp op) {
  const Node& node = graph.producer(id);
  const auto* found = std::get_if<Pointwise>(&node.op);
  return found != nullptr && found->op == op ? &node : nullptr;
}

bool is_reduction(const Graph& graph, ValueId id, ReduceOp op) {
  const Node& node = graph.producer(id);
  const auto* reduce = std::get_if<Reduce>(&node.op);
  return reduce != nullptr && reduce->op == op && reduce->dims.size() == 1 &&
         reduce->dims[0] + 1 == static_cast<int>(graph.type(node.inputs[0]).sizes.size());
}

}  // namespace

ValueId behind_views(const Graph& graph, ValueId id) {
  while (std::holds_alternative<Expand>(graph.producer(id).op) || std::holds_alternative<Reshape>(graph.producer(id).op))
    id = graph.producer(id).inputs[0];
  return id;
}

std::optional<double> number_of(const Graph& graph, ValueId id) {
  while (std::holds_alternative<Expand>(graph.producer(id).op) || std::holds_alternative<Reshape>(graph.producer(id).op) ||
         std::holds_alternative<Cast>(graph.producer(id).op))
    id = graph.producer(id).inputs[0];
  const auto* full = std::get_if<Full>(&graph.producer(id).op);
  const auto* value = full == nullptr ? nullptr : std::get_if<double>(&full->value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

bool is_float_cast(const Graph& graph, const Node& node) {
  const bool keeps = std::holds_alternative<Bitcast>(node.op) && graph.type(node.inputs[0]).dtype == graph.type(node.outputs[0]).dtype;
  return keeps || (std::holds_alternative<Cast>(node.op) && is_floating(graph.type(node.inputs[0]).dtype));
}

std::optional<ValueId> softmax_operand(const Graph& graph, const Uses& uses, ValueId result) {
  const Node* product = pointwise(graph, result, ScalarOp::Mul);
  if (product == nullptr || !uses.only_user(result)) return std::nullopt;
  const ValueId exponents = product->inputs[0];
  const Node& inverse = graph.producer(behind_views(graph, product->inputs[1]));
  const auto* reciprocal = std::get_if<Pointwise>(&inverse.op);
  if (reciprocal == nullptr || reciprocal->op != ScalarOp::Reciprocal) return std::nullopt;
  const ValueId sum = behind_views(graph, inverse.inputs[0]);
  const Node* exponential = pointwise(graph, exponents, ScalarOp::ExpNormal);
  if (exponential == nullptr || !is_reduction(graph, sum, ReduceOp::Sum) || graph.producer(sum).inputs[0] != exponents) return std::nullopt;
  const Node* centred = pointwise(graph, exponential->inputs[0], ScalarOp::Sub);
  if (centred == nullptr || uses.of(exponents).size() != 2 || uses.is_kept(exponents)) return std::nullopt;
  const ValueId scores = centred->inputs[0], most = behind_views(graph, centred->inputs[1]);
  if (!is_reduction(graph, most, ReduceOp::Max) || graph.producer(most).inputs[0] != scores) return std::nullopt;
  return uses.of(scores).size() == 2 && !uses.is_kept(scores) ? std::optional(scores) : std::nullopt;
}

}  // namespace toroid
