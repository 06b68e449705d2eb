#include "passes/dead_code.h"

#include <algorithm>

#include "passes/graph_copy.h"

namespace toroid {
namespace {

bool remove_dead_nodes(Graph& graph) {
  std::vector<bool> used(graph.num_nodes());
  auto use = [&](ValueId value) { used[static_cast<size_t>(graph.value(value).producer)] = true; };
  for (ValueId input : graph.inputs) use(input);
  for (ValueId output : graph.outputs) use(output);
  for (const SymbolBinding& binding : graph.bindings) use(binding.value);
  for (size_t i = graph.num_nodes(); i-- > 0;) {
    used[i] = used[i] || is_collective(graph.node(NodeId{static_cast<uint32_t>(i)}).op);
    if (!used[i]) continue;
    for (ValueId input : graph.node(NodeId{static_cast<uint32_t>(i)}).inputs) use(input);
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) return false;

  GraphCopy kept(graph);
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    if (used[i]) kept.node(NodeId{static_cast<uint32_t>(i)});
  }
  graph = kept.finish();
  return true;
}

}  // namespace

bool remove_dead_code(Program& program) {
  bool changed = remove_dead_nodes(program.graph);
  for (Graph& subgraph : program.subgraphs) changed = remove_dead_nodes(subgraph) || changed;
  return changed;
}

}  // namespace toroid
