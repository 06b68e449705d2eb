#include "passes/attention/expand_attention.h"

#include <algorithm>

#include "formula/nn/attention.h"
#include "graph/builder.h"
#include "passes/graph_copy.h"

namespace toroid {
namespace {

using HasKernel = std::function<bool(const Graph&, const Node&)>;

bool is_to_expand(const Graph& graph, const Node& node, const HasKernel& has_kernel) {
  return std::holds_alternative<Attention>(node.op) && !has_kernel(graph, node);
}

Graph expanded(const Graph& graph, Program& program, const HasKernel& has_kernel) {
  GraphCopy copy(graph);
  Builder builder(copy.target(), *program.symbols, &program.guards);
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    const Node& node = graph.node(id);
    if (!is_to_expand(graph, node, has_kernel)) {
      copy.node(id);
      continue;
    }
    const auto& attention = std::get<Attention>(node.op);
    builder.set_provenance(node.provenance, graph.value(node.outputs[0]).name + "_t");
    const auto operand = [&](size_t k) { return k < node.inputs.size() ? builder.wrap(copy.copied(node.inputs[k])) : Tensor(); };
    const Tensor made = formula::attend_in_parts({.q = operand(0),
                                                  .k = operand(1),
                                                  .v = operand(2),
                                                  .mask = operand(3),
                                                  .causal = attention.causal,
                                                  .scale = attention.scale,
                                                  .batch = {}});
    copy.replace(node.outputs[0], made.id());
  }
  return copy.finish();
}

}  // namespace

bool expand_attention(Program& program, const HasKernel& has_kernel) {
  bool changed = false;
  const auto expand = [&](Graph& graph) {
    const bool has_any =
        std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return is_to_expand(graph, node, has_kernel); });
    if (!has_any) return;
    graph = expanded(graph, program, has_kernel);
    changed = true;
  };
  expand(program.graph);
  for (Graph& graph : program.subgraphs) expand(graph);
  return changed;
}

}  // namespace toroid
