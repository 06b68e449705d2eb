#include "passes/shard/halves.h"

#include <algorithm>
#include <set>

#include "passes/dead_code.h"

namespace toroid::shard {

NodeSharding halve_node(const Graph& graph, const Node& node, std::span<const Sharding> held) {
  NodeSharding sharding = shard_node(graph, node, held, kHalves);
  const auto is_in_segments = [](const Sharding& each) { return !each.segments.empty(); };
  const bool has_segments =
      is_in_segments(sharding.result) || std::any_of(sharding.operands.begin(), sharding.operands.end(), is_in_segments);
  if (!sharding.is_partial && !has_segments) return sharding;
  return {.operands = std::vector<Sharding>(held.size()), .result = {}};
}

HalvesBuilder::HalvesBuilder(Program& program, const Halves& halves)
    : program_(program),
      old_(program.graph),
      halves_(halves),
      builder_(graph_, *program.symbols, &program.guards),
      held_(old_.num_values()) {
  for (size_t i = 1; i < old_.provenances().size(); ++i) graph_.add_provenance(old_.provenances()[i]);
}

void HalvesBuilder::add(size_t i, int64_t half) {
  const Node& node = old_.node(NodeId{static_cast<uint32_t>(i)});
  const NodeSharding& sharding = halves_.nodes[i];
  builder_.set_provenance(node.provenance, old_.value(node.outputs[0]).name);
  if (std::holds_alternative<Input>(node.op)) {  // its halves are cut where they are needed
    Tensor& whole = held(node.outputs[0]).whole;
    if (!whole.defined()) whole = add_part(builder_, old_, node, {}, {}, 1)[0];
    return;
  }
  std::vector<Tensor> operands;
  for (size_t k = 0; k < node.inputs.size(); ++k) operands.push_back(as(node.inputs[k], sharding.operands[k], half));
  count_in_part(builder_, old_, node, sharding, operands, kHalves, half);
  const std::vector<Tensor> results = add_part(builder_, old_, node, operands, sharding.result, kHalves);
  for (size_t k = 0; k < results.size(); ++k) {
    if (has_halves(i)) {
      give(node.outputs[k], half, results[k]);
    } else {
      give(node.outputs[k], results[k]);
    }
  }
}

void HalvesBuilder::give(ValueId value, Tensor whole) {
  held(value).whole = whole;
  graph_.rename(whole.id(), old_.value(value).name);
}

void HalvesBuilder::give(ValueId value, int64_t half, Tensor part) {
  held(value).own[static_cast<size_t>(half)] = part;
  graph_.rename(part.id(), old_.value(value).name);
}

Tensor HalvesBuilder::as(ValueId value, const Sharding& wanted, int64_t half) {
  if (!wanted.is_sharded()) return whole(value);
  Held& its = held(value);
  if (halves_.values[static_cast<size_t>(value)] == wanted && its.own[static_cast<size_t>(half)].defined()) {
    return its.own[static_cast<size_t>(half)];
  }
  Tensor& cut = its.cuts[{wanted, half}];
  if (!cut.defined()) {
    const Tensor all = whole(value);
    const sym::Expr size = sym::floor_div(all.size(wanted.dim), kHalves);
    cut = builder_.slice(all, wanted.dim, size * half, size);
  }
  return cut;
}

Tensor HalvesBuilder::whole(ValueId value) {
  Held& its = held(value);
  if (!its.whole.defined()) its.whole = builder_.cat({its.own.begin(), its.own.end()}, halves_.values[static_cast<size_t>(value)].dim);
  return its.whole;
}

size_t HalvesBuilder::end_of_stretch(size_t begin) const {
  std::set<ValueId> made;
  for (size_t i = begin; i < old_.num_nodes(); ++i) {
    const Node& node = old_.node(NodeId{static_cast<uint32_t>(i)});
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Sharding& own = halves_.values[static_cast<size_t>(node.inputs[k])];
      if (own.is_sharded() && own != halves_.nodes[i].operands[k] && made.contains(node.inputs[k])) return i;
    }
    if (is_collective(node.op)) return i + 1;
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  return old_.num_nodes();
}

void HalvesBuilder::finish() {
  for (const SymbolBinding& binding : old_.bindings) graph_.bindings.push_back({binding.expr, whole(binding.value).id()});
  for (ValueId input : old_.inputs) graph_.inputs.push_back(held(input).whole.id());
  for (ValueId output : old_.outputs) graph_.outputs.push_back(whole(output).id());
  program_.graph = std::move(graph_);
  remove_dead_code(program_);
}

}  // namespace toroid::shard
