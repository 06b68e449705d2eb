#include "passes/graph_copy.h"

namespace toroid {

GraphCopy::GraphCopy(const Graph& source) : source_(source), new_ids_(source.num_values()) {
  for (size_t i = 1; i < source.provenances().size(); ++i) target_.add_provenance(source.provenances()[i]);
}

std::vector<ValueId> GraphCopy::translate(const std::vector<ValueId>& values) {
  std::vector<ValueId> translated;
  for (ValueId value : values) translated.push_back(new_id(value));
  return translated;
}

NodeId GraphCopy::node(NodeId id) {
  const Node& node = source_.node(id);
  std::vector<TensorType> types;
  std::vector<std::string> names;
  for (ValueId output : node.outputs) {
    types.push_back(source_.type(output));
    names.push_back(source_.value(output).name);
  }
  const NodeId copy = target_.add_node(node.op, translate(node.inputs), std::move(types), node.provenance, std::move(names));
  for (size_t i = 0; i < node.outputs.size(); ++i) new_id(node.outputs[i]) = target_.node(copy).outputs[i];
  return copy;
}

void GraphCopy::substitute(ValueId value, Op op) {
  const Value& old = source_.value(value);
  const NodeId made = target_.add_node(std::move(op), {}, {old.type}, source_.node(old.producer).provenance, {old.name});
  new_id(value) = target_.node(made).outputs[0];
}

void GraphCopy::replace(ValueId value, ValueId made) {
  target_.rename(made, source_.value(value).name);
  new_id(value) = made;
}

Graph GraphCopy::finish() {
  target_.inputs = translate(source_.inputs);
  target_.outputs = translate(source_.outputs);
  for (const SymbolBinding& binding : source_.bindings) {
    target_.bindings.push_back({binding.expr, new_id(binding.value)});
  }
  return std::move(target_);
}

}  // namespace toroid
