#include "passes/expand_attention.h"

#include <algorithm>

#include "formula/nn/attention.h"
#include "graph/builder.h"
#include "passes/graph_copy.h"

namespace toroid {
namespace {

bool has_attention(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return std::holds_alternative<Attention>(node.op); });
}

Graph expanded(const Graph& graph, Program& program) {
  GraphCopy copy(graph);
  Builder builder(copy.target(), *program.symbols, &program.guards);
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    const Node& node = graph.node(id);
    const auto* attention = std::get_if<Attention>(&node.op);
    if (attention == nullptr) {
      copy.node(id);
      continue;
    }
    builder.set_provenance(node.provenance, graph.value(node.outputs[0]).name + "_t");
    const auto operand = [&](size_t k) { return k < node.inputs.size() ? builder.wrap(copy.copied(node.inputs[k])) : Tensor(); };
    const Tensor made = formula::attend_in_parts({.q = operand(0),
                                                  .k = operand(1),
                                                  .v = operand(2),
                                                  .mask = operand(3),
                                                  .causal = attention->causal,
                                                  .scale = attention->scale,
                                                  .batch = {}});
    copy.replace(node.outputs[0], made.id());
  }
  return copy.finish();
}

}  // namespace

bool expand_attention(Program& program) {
  bool changed = false;
  const auto expand = [&](Graph& graph) {
    if (!has_attention(graph)) return;
    graph = expanded(graph, program);
    changed = true;
  };
  expand(program.graph);
  for (Graph& graph : program.subgraphs) expand(graph);
  return changed;
}

}  // namespace toroid
