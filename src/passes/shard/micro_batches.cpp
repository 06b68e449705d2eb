#include "passes/shard/micro_batches.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "graph/builder.h"
#include "passes/collective.h"
#include "passes/shard/halves.h"
#include "passes/shard/sharding.h"

namespace toroid {
namespace {

using shard::Costs;
using shard::kHalves;
using shard::NodeSharding;
using shard::Sharding;

// What the halves of a batch take longer than the whole, of all that they compute: the last wave of a kernel's blocks fills the device
// twice as often in part.
constexpr double kLostShare = 0.05;

// Which values have halves, and what that saves.
struct Split {
  shard::Halves halves;
  double saved_s = 0;
};

// The processes of a collective operation: the first number of its GROUP (library/collectives/collectives.h).
int64_t processes_of(const Library& op) {
  const bool has_number_first = op.name.ends_with("all_reduce") || op.name.ends_with("reduce_scatter") || op.name.ends_with("broadcast");
  return std::max<int64_t>(known_attribute(op, has_number_first ? 1 : 0).value_or(0), 2);
}

double communication_s(const Graph& graph, const Node& node, int64_t parts, const Costs& costs) {
  const auto& op = std::get<Library>(node.op);
  const double most = std::max(shard::bytes(graph.type(node.inputs[0])), shard::bytes(graph.type(node.outputs[0])));
  const double sent = (op.name.ends_with("all_reduce") ? 2 : 1) * most / static_cast<double>(parts);
  return shard::gather_seconds(sent, processes_of(op), costs);
}

class SplitPlanner {
 public:
  SplitPlanner(const Graph& graph, const Costs& costs, sym::Expr batch) : graph_(graph), costs_(costs), batch_(batch) {}

  Split run() {
    split_.halves.values.resize(graph_.num_values());
    for (const Node& node : graph_.nodes()) visit(node);
    for (ValueId output : graph_.outputs) take(output, {});
    for (const SymbolBinding& binding : graph_.bindings) take(binding.value, {});
    // The first of the halves has nothing before it, and the last one nothing behind it.
    const double hidden = std::min(communication_s_, computation_s_) - longest_s_;
    split_.saved_s = hidden - lost_s_ - kLostShare * computation_s_;
    return std::move(split_);
  }

 private:
  void visit(const Node& node) {
    std::vector<Sharding> held;
    for (ValueId input : node.inputs) held.push_back(split_.halves.values[static_cast<size_t>(input)]);
    NodeSharding sharding = of(node, held);
    for (size_t i = 0; i < node.inputs.size(); ++i) take(node.inputs[i], sharding.operands[i]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const bool is_token = is_collective(node.op) && i == 1;
      if (!is_token) split_.halves.values[static_cast<size_t>(node.outputs[i])] = sharding.result;
    }
    if (sharding.result.is_sharded()) count(node);
    split_.halves.nodes.push_back(std::move(sharding));
  }

  NodeSharding of(const Node& node, std::span<const Sharding> held) const {
    const NodeSharding whole = {.operands = std::vector<Sharding>(held.size()), .result = {}};
    if (std::holds_alternative<Input>(node.op)) {
      const TensorType& type = graph_.type(node.outputs[0]);
      const bool has_batch = type.rank() > 0 && sym::known_eq(type.sizes[0], batch_) && shard::can_shard(type, {0}, kHalves);
      return {.operands = {}, .result = has_batch ? Sharding{0} : Sharding{}};
    }
    if (is_collective(node.op)) return collective(node, held[0], whole);
    return shard::halve_node(graph_, node, held);
  }

  // What concerns each element of a row by itself. Rows of the first dim are those of processes, where there are more or fewer of them.
  static NodeSharding collective(const Node& node, const Sharding& held, const NodeSharding& whole) {
    const std::string& name = std::get<Library>(node.op).name;
    const bool keeps_rows = name.ends_with(".all_reduce") || name.ends_with(".broadcast");
    if (!held.is_sharded() || (held.dim == 0 && !keeps_rows)) return whole;
    NodeSharding sharding = whole;
    sharding.operands[0] = sharding.result = held;
    return sharding;
  }

  void take(ValueId value, const Sharding& wanted) {
    const Sharding& held = split_.halves.values[static_cast<size_t>(value)];
    if (!held.is_sharded() || held == wanted || !joined_.insert(value).second) return;
    lost_s_ += costs_.start_s + 2 * shard::bytes(graph_.type(value)) / costs_.memory_bytes_per_s;
  }

  void count(const Node& node) {
    if (is_collective(node.op)) {
      const double half = communication_s(graph_, node, kHalves, costs_);
      communication_s_ += 2 * half;
      longest_s_ = std::max(longest_s_, half);
      lost_s_ += 2 * half - communication_s(graph_, node, 1, costs_);
      return;
    }
    const double halves = 2 * shard::seconds(graph_, node, costs_, kHalves);
    computation_s_ += halves;
    lost_s_ += halves - shard::seconds(graph_, node, costs_);
  }

  const Graph& graph_;
  const Costs& costs_;
  const sym::Expr batch_;
  Split split_;
  std::set<ValueId> joined_;
  double communication_s_ = 0, computation_s_ = 0, longest_s_ = 0, lost_s_ = 0;
};

class Splitter {
 public:
  Splitter(Program& program, const Split& split) : split_(split), halves_(program, split.halves) {}

  void run() {
    const Graph& graph = halves_.old();
    for (size_t begin = 0; begin < graph.num_nodes();) {
      const size_t end = halves_.end_of_stretch(begin);
      for (int64_t half = 0; half < kHalves; ++half) {
        for (size_t i = begin; i < end; ++i) {
          if (half == 0 || halves_.has_halves(i)) add(i, half);
        }
      }
      begin = end;
    }
    halves_.finish();
  }

 private:
  void add(size_t i, int64_t half) {
    const Node& node = halves_.old().node(NodeId{static_cast<uint32_t>(i)});
    if (!is_collective(node.op)) return halves_.add(i, half);
    halves_.builder().set_provenance(node.provenance, halves_.old().value(node.outputs[0]).name);
    const Tensor result = collective(node, split_.halves.nodes[i], half);
    if (halves_.has_halves(i)) return halves_.give(node.outputs[0], half, result);
    halves_.give(node.outputs[0], result);
  }

  // It has its own token: the order of all is the new one.
  Tensor collective(const Node& node, const NodeSharding& sharding, int64_t half) {
    const auto& op = std::get<Library>(node.op);
    TensorType type = shard::part_type(halves_.old().type(node.outputs[0]), sharding.result, kHalves);
    const Tensor x = halves_.as(node.inputs[0], sharding.operands[0], half);
    return add_collective(halves_.builder(), op.name.substr(kCollectives.size()), x, std::move(type.sizes), op.attributes);
  }

  const Split& split_;
  shard::HalvesBuilder halves_;
};

}  // namespace

bool split_batch(Program& program, const PassCosts& costs) {
  if (!costs.beside) return false;
  const Graph& graph = program.graph;
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return is_collective(node.op); })) return false;
  std::optional<Split> best;
  std::set<int64_t> seen;
  for (ValueId input : graph.inputs) {
    const TensorType& type = graph.type(input);
    if (type.rank() == 0 || !shard::can_shard(type, {0}, kHalves) || !seen.insert(type.sizes[0].value()).second) continue;
    Split split = SplitPlanner(graph, *costs.beside, type.sizes[0]).run();
    if (split.saved_s > (best ? best->saved_s : 0)) best = std::move(split);
  }
  if (!best) return false;
  Splitter(program, *best).run();
  return true;
}

}  // namespace toroid
