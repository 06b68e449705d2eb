#include "passes/shard/swap_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/builder.h"
#include "library/collectives/mpi.h"
#include "passes/collective.h"
#include "passes/shard/costs.h"
#include "passes/shard/halves.h"

namespace toroid {
namespace {

using shard::Halves;
using shard::kHalves;
using shard::NodeSharding;
using shard::Sharding;

// The first number of a collective's GROUP (library/collectives/collectives.h).
size_t group_at(const Node& node) { return is_library(node.op, "collectives.reduce_scatter") ? 1 : 0; }

// The rank of this process of the two; none of other programs' operations.
std::optional<int64_t> rank_of_two(const Node& node) {
  const auto& op = std::get<Library>(node.op);
  const size_t at = group_at(node);
  if (op.attributes.size() != at + 2 || known_attribute(op, at) != 2) return std::nullopt;
  const std::optional<int64_t> rank = known_attribute(op, at + 1);
  return rank == 0 || rank == 1 ? rank : std::nullopt;
}

class RowPlanner {
 public:
  RowPlanner(const Graph& graph, double least_bytes) : graph_(graph), least_bytes_(least_bytes) {}

  Halves run() {
    halves_.values.resize(graph_.num_values());
    for (const Node& node : graph_.nodes()) visit(node);
    keep_what_is_scattered();
    return std::move(halves_);
  }

  bool gathers(const Node& node) const {
    return is_library(node.op, "collectives.all_gather") && rank_of_two(node) && is_large(node.inputs[0]);
  }
  bool scatters(const Node& node) const {
    if (!is_library(node.op, "collectives.reduce_scatter") || !rank_of_two(node) || !is_large(node.outputs[0])) return false;
    const bool is_sum = known_attribute(std::get<Library>(node.op), 0) == static_cast<int64_t>(collectives::Reduction::Sum);
    return is_sum && is_floating(graph_.type(node.inputs[0]).dtype);
  }

 private:
  bool is_large(ValueId part) const { return shard::bytes(graph_.type(part)) >= least_bytes_; }

  void visit(const Node& node) {
    std::vector<Sharding> held;
    for (ValueId input : node.inputs) held.push_back(halves_.values[static_cast<size_t>(input)]);
    NodeSharding sharding = {.operands = std::vector<Sharding>(held.size()), .result = {}};
    if (gathers(node)) {
      sharding.result = {0};
    } else if (scatters(node)) {
      sharding.operands[0] = {0};
    } else if (!is_collective(node.op)) {
      sharding = shard::halve_node(graph_, node, held);
    }
    const size_t results = is_collective(node.op) ? 1 : node.outputs.size();  // its second one is its token
    for (size_t i = 0; i < results; ++i) halves_.values[static_cast<size_t>(node.outputs[i])] = sharding.result;
    halves_.nodes.push_back(std::move(sharding));
  }

  // Other halves would be joined again.
  void keep_what_is_scattered() {
    std::vector<bool> leads(graph_.num_values());
    for (size_t i = graph_.num_nodes(); i-- > 0;) {
      const Node& node = graph_.node(NodeId{static_cast<uint32_t>(i)});
      NodeSharding& sharding = halves_.nodes[i];
      const bool is_kept = scatters(node) || std::any_of(node.outputs.begin(), node.outputs.end(),
                                                         [&](ValueId output) { return leads[static_cast<size_t>(output)]; });
      if (!is_kept && !gathers(node)) {
        sharding = {.operands = std::vector<Sharding>(node.inputs.size()), .result = {}};
        for (ValueId output : node.outputs) halves_.values[static_cast<size_t>(output)] = {};
      }
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (sharding.operands[k].is_sharded()) leads[static_cast<size_t>(node.inputs[k])] = true;
      }
    }
  }

  const Graph& graph_;
  const double least_bytes_;
  Halves halves_;
};

class RowSwapper {
 public:
  RowSwapper(Program& program, const Halves& plan, const RowPlanner& planner)
      : plan_(plan), planner_(planner), halves_(program, plan), graph_(halves_.old()) {}

  void run() {
    for (size_t begin = 0; begin < graph_.num_nodes();) {
      const size_t end = halves_.end_of_stretch(begin);
      const Node& last = node(end - 1);
      if (planner_.scatters(last)) {
        scatter(begin, end - 1);
      } else {
        compute(begin, is_collective(last.op) ? end - 1 : end);
        if (is_collective(last.op)) communicate(last);
      }
      begin = end;
    }
    halves_.finish();
  }

 private:
  const Node& node(size_t i) const { return graph_.node(NodeId{static_cast<uint32_t>(i)}); }

  void compute(size_t begin, size_t end) {
    for (int64_t half = 0; half < kHalves; ++half) {
      for (size_t i = begin; i < end; ++i) {
        if (half == 0 || halves_.has_halves(i)) halves_.add(i, half);
      }
    }
  }

  void communicate(const Node& operation) {
    halves_.builder().set_provenance(operation.provenance, graph_.value(operation.outputs[0]).name);
    const Tensor x = halves_.whole(operation.inputs[0]);
    if (planner_.gathers(operation)) {
      const int64_t own = *rank_of_two(operation);
      const Tensor other = swapped(operation, x);
      halves_.give(operation.outputs[0], own, x);
      return halves_.give(operation.outputs[0], kHalves - 1 - own, other);
    }
    const auto& op = std::get<Library>(operation.op);
    const Tensor result =
        add_collective(halves_.builder(), op.name.substr(kCollectives.size()), x, graph_.type(operation.outputs[0]).sizes, op.attributes);
    halves_.give(operation.outputs[0], result);
  }

  // The nodes up to the one at `at`, and it: own rows but for their last product, the other process's rows, which go, and the own rest.
  void scatter(size_t begin, size_t at) {
    const Node& operation = node(at);
    const int64_t own = *rank_of_two(operation), other = kHalves - 1 - own;
    size_t last = at;
    while (last > begin && !(halves_.has_halves(last) && shard::is_product(node(last).op))) --last;
    for (size_t i = begin; i < at; ++i) {
      if (i < last || !halves_.has_halves(i)) halves_.add(i, own);
    }
    for (size_t i = begin; i < at; ++i) {
      if (halves_.has_halves(i)) halves_.add(i, other);
    }
    const ValueId addend = operation.inputs[0];
    const Sharding rows = plan_.nodes[at].operands[0];
    const Tensor for_other = halves_.as(addend, rows, other);
    halves_.builder().set_provenance(operation.provenance, graph_.value(operation.outputs[0]).name);
    const Tensor received = swapped(operation, for_other);
    for (size_t i = last; i < at; ++i) {
      if (halves_.has_halves(i)) halves_.add(i, own);
    }
    const Tensor rest = halves_.as(addend, rows, own);
    halves_.builder().set_provenance(operation.provenance, graph_.value(operation.outputs[0]).name);
    halves_.give(operation.outputs[0], halves_.builder().binary(ScalarOp::Add, rest, received));
  }

  Tensor swapped(const Node& operation, Tensor x) {
    const auto& attributes = std::get<Library>(operation.op).attributes;
    const Tensor other = add_collective(halves_.builder(), "swap", x, x.sizes(),
                                        {attributes.begin() + static_cast<ptrdiff_t>(group_at(operation)), attributes.end()});
    halves_.builder().graph().rename(other.id(), graph_.value(operation.outputs[0]).name + "_swapped");
    return other;
  }

  const Halves& plan_;
  const RowPlanner& planner_;
  shard::HalvesBuilder halves_;
  const Graph& graph_;
};

}  // namespace

bool swap_rows(Program& program, const PassCosts& costs) {
  RowPlanner planner(program.graph, costs.swapped_from_bytes);
  const std::vector<Node>& nodes = program.graph.nodes();
  if (std::none_of(nodes.begin(), nodes.end(), [&](const Node& node) { return planner.gathers(node) || planner.scatters(node); }))
    return false;
  const Halves plan = planner.run();
  RowSwapper(program, plan, planner).run();  // which replaces the graph at its end
  return true;
}

}  // namespace toroid
