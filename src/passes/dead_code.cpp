#include "passes/dead_code.h"

namespace toroid {
namespace {

bool remove_dead_nodes(Graph& graph) {
  std::vector<bool> used(graph.num_nodes());
  auto use = [&](ValueId value) { used[static_cast<size_t>(graph.value(value).producer)] = true; };
  for (ValueId input : graph.inputs) use(input);
  for (ValueId output : graph.outputs) use(output);
  for (const SymbolBinding& binding : graph.bindings) use(binding.value);
  for (size_t i = graph.num_nodes(); i-- > 0;) {
    if (!used[i]) continue;
    for (ValueId input : graph.node(NodeId{static_cast<uint32_t>(i)}).inputs) use(input);
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) return false;

  Graph kept;
  for (size_t i = 1; i < graph.provenances().size(); ++i) kept.add_provenance(graph.provenances()[i]);
  std::vector<ValueId> new_id(graph.num_values());
  auto translate = [&](const std::vector<ValueId>& values) {
    std::vector<ValueId> translated;
    for (ValueId value : values) translated.push_back(new_id[static_cast<size_t>(value)]);
    return translated;
  };
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    if (!used[i]) continue;
    Node& node = graph.node(NodeId{static_cast<uint32_t>(i)});
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (ValueId output : node.outputs) {
      types.push_back(std::move(graph.value(output).type));
      names.push_back(std::move(graph.value(output).name));
    }
    const NodeId id =
        kept.add_node(std::move(node.op), translate(node.inputs), std::move(types), node.provenance, std::move(names));
    for (size_t k = 0; k < node.outputs.size(); ++k)
      new_id[static_cast<size_t>(node.outputs[k])] = kept.node(id).outputs[k];
  }
  kept.inputs = translate(graph.inputs);
  kept.outputs = translate(graph.outputs);
  for (const SymbolBinding& binding : graph.bindings) {
    kept.bindings.push_back({binding.expr, new_id[static_cast<size_t>(binding.value)]});
  }
  graph = std::move(kept);
  return true;
}

}  // namespace

bool remove_dead_code(Program& program) {
  bool changed = remove_dead_nodes(program.graph);
  for (Graph& subgraph : program.subgraphs) changed = remove_dead_nodes(subgraph) || changed;
  return changed;
}

}  // namespace toroid
