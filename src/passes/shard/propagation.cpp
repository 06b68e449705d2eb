#include "passes/shard/propagation.h"

#include <algorithm>
#include <utility>

namespace toroid::shard {
namespace {

constexpr size_t kNoRegion = static_cast<size_t>(-1);

bool is_any_sharded(std::span<const Sharding> all) {
  return std::any_of(all.begin(), all.end(), [](const Sharding& each) { return each.is_sharded(); });
}

}  // namespace

size_t Regions::add() {
  parent_.push_back(parent_.size());
  regions_.emplace_back();
  return parent_.size() - 1;
}

size_t Regions::find(size_t id) {
  while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
  return id;
}

size_t Regions::join(size_t a, size_t b) {
  a = find(a), b = find(b);
  if (a == b) return a;
  parent_[b] = a;
  regions_[a].saved_s += regions_[b].saved_s;
  regions_[a].communication_s += regions_[b].communication_s;
  const auto append = [](auto& list, const auto& more) { list.insert(list.end(), more.begin(), more.end()); };
  append(regions_[a].products, regions_[b].products);
  append(regions_[a].behind, regions_[b].behind);
  append(regions_[a].buffers, regions_[b].buffers);
  regions_[a].has_attention = regions_[a].has_attention || regions_[b].has_attention;
  return a;
}

Batch batch_through(const Graph& graph, std::vector<bool> inputs, int64_t processes) {
  Batch batch{.inputs = std::move(inputs), .values = std::vector<Sharding>(graph.num_values())};
  for (const Node& node : graph.nodes()) {
    NodeSharding sharding;
    if (const auto* input = std::get_if<Input>(&node.op)) {
      if (batch.inputs[input->index]) sharding.result = {0};
    } else {
      std::vector<Sharding> held;
      for (ValueId each : node.inputs) held.push_back(batch.values[static_cast<size_t>(each)]);
      sharding = shard_node(graph, node, held, processes);
    }
    if (sharding.is_partial || !sharding.result.segments.empty()) sharding.result = {};
    for (ValueId output : node.outputs) batch.values[static_cast<size_t>(output)] = sharding.result;
  }
  return batch;
}

Sharding output_sharding(const Program& program, size_t i, const Sharding& of_caller, const Starts& starts) {
  const OutputSpec& output = program.outputs[i];
  if (output.kind != OutputKind::BufferMutation) return of_caller;
  for (const auto& [id, sharding] : starts.buffers) {
    if (program.constant(id).name == output.target) return sharding;
  }
  return {};
}

Propagation::Propagation(const Program& program, int64_t processes, const Costs& costs, const Starts& starts,
                         const std::set<NodeId>& by_weights, Plan& plan)
    : program_(program),
      graph_(program.graph),
      processes_(processes),
      costs_(costs),
      starts_(starts),
      by_weights_(by_weights),
      plan_(plan) {}

void Propagation::run() {
  plan_.nodes.clear();
  plan_.values.assign(graph_.num_values(), {});
  plan_.reductions = plan_.gathers = 0;
  plan_.communicated_bytes = 0;
  plan_.seconds = 0;
  plan_.has_batch = starts_.batch ? starts_.batch->inputs : std::vector<bool>(graph_.inputs.size());
  region_of_.assign(graph_.num_values(), kNoRegion);
  is_gathered_.assign(graph_.num_values(), false);
  for (size_t i = 0; i < graph_.num_nodes(); ++i) visit(NodeId{static_cast<uint32_t>(i)});
  for (const SymbolBinding& binding : graph_.bindings) take(binding.value, {});
  for (size_t i = 0; i < graph_.outputs.size(); ++i) take(graph_.outputs[i], output_sharding(program_, i, plan_.outputs[i], starts_));
}

void Propagation::visit(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<Sharding> held;
  for (ValueId input : node.inputs) held.push_back(plan_.values[static_cast<size_t>(input)]);
  size_t region = kNoRegion;
  NodeSharding sharding = begin(id, held, region);
  if (sharding.is_partial && of_batch(node.outputs[0]) == Sharding{0}) sharding.result = {0};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const size_t of_operand = take(node.inputs[i], sharding.operands[i]);
    if (sharding.operands[i].is_sharded() && of_operand != kNoRegion) {
      region = region == kNoRegion ? of_operand : regions_.join(region, of_operand);
    }
  }
  if (region != kNoRegion) count(id, sharding, regions_.of(region));
  plan_.seconds += part_seconds(node, sharding);
  for (ValueId output : node.outputs) {
    plan_.values[static_cast<size_t>(output)] = sharding.result;
    if (sharding.result.is_sharded()) region_of_[static_cast<size_t>(output)] = region;
  }
  plan_.nodes.push_back(std::move(sharding));
}

NodeSharding Propagation::begin(NodeId id, std::span<const Sharding> held, size_t& region) {
  const Node& node = graph_.node(id);
  if (const auto* constant = std::get_if<Constant>(&node.op)) {
    const auto found = starts_.buffers.find(constant->id);
    if (found != starts_.buffers.end()) {
      region = regions_.add();
      regions_.of(region).buffers.push_back(constant->id);
      return {.operands = {}, .result = found->second};
    }
  }
  if (const auto* input = std::get_if<Input>(&node.op)) return begin_at_input(node, *input, region);
  bool may_begin = true;
  for (size_t i = 0; i < held.size(); ++i) may_begin = may_begin && (!held[i].is_sharded() || held[i] == of_batch(node.inputs[i]));
  if (may_begin && starts_.batch && starts_.whole.contains(id)) return {.operands = std::vector<Sharding>(held.size()), .result = {}};
  const auto start = starts_.products.find(id);
  if (start != starts_.products.end() && may_begin) {
    region = regions_.add();
    regions_.of(region).products.push_back(id);
    return start->second.is_by_rows ? product_by_rows(graph_, node) : product_by_columns(graph_, node, start->second.segments);
  }
  return shard_node(graph_, node, held, processes_);
}

// The caller's part, or a part of the batch, of which all is there, too.
NodeSharding Propagation::begin_at_input(const Node& node, const Input& input, size_t& region) {
  NodeSharding sharding;
  sharding.result = plan_.has_batch[input.index] ? Sharding{0} : plan_.inputs[input.index];
  if (sharding.result.is_sharded()) region = regions_.add();
  is_gathered_[static_cast<size_t>(node.outputs[0])] = plan_.has_batch[input.index];
  return sharding;
}

// The region of a value that is wanted so; what it takes to have it.
size_t Propagation::take(ValueId value, const Sharding& wanted) {
  const auto v = static_cast<size_t>(value);
  const Sharding& held = plan_.values[v];
  if (!held.is_sharded() || held == wanted) return region_of_[v];
  if (!is_gathered_[v]) {
    is_gathered_[v] = true;
    const double size = bytes(graph_.type(value));
    const double taken = gather_seconds(size, processes_, costs_);
    regions_.of(region_of_[v]).communication_s += taken;
    plan_.seconds += taken;
    ++plan_.gathers;
    plan_.communicated_bytes += static_cast<int64_t>(size);
  }
  return region_of_[v];
}

void Propagation::count(NodeId id, const NodeSharding& sharding, Regions::Region& region) {
  const Node& node = graph_.node(id);
  if (sharding.is_partial) {
    const double size = bytes(graph_.type(node.outputs[0]));
    const double taken = gather_seconds(sharding.result.is_sharded() ? size : 2 * size, processes_, costs_);
    region.communication_s += taken;
    plan_.seconds += taken;
    ++plan_.reductions;
    plan_.communicated_bytes += static_cast<int64_t>(size);
  }
  if (starts_.products.contains(id) && (region.products.empty() || region.products.back() != id)) region.behind.push_back(id);
  region.has_attention = region.has_attention || std::holds_alternative<Attention>(node.op) ||
                         (is_product(node.op) && sharding.operands[1].is_sharded() && !by_weights_.contains(id));
  region.saved_s += seconds(graph_, node, costs_) * (1 - 1 / static_cast<double>(processes_));
}

double Propagation::part_seconds(const Node& node, const NodeSharding& sharding) const {
  if (!sharding.result.is_sharded() && !is_any_sharded(sharding.operands)) return seconds(graph_, node, costs_);
  if (is_product(node.op) && !sharding.operands[1].is_sharded()) return seconds(graph_, node, costs_, processes_);
  return seconds(graph_, node, costs_) / static_cast<double>(processes_);
}

}  // namespace toroid::shard
