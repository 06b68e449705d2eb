#include "passes/shard/plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/constant_values.h"
#include "passes/uses.h"

namespace toroid::shard {
namespace {

// Sets of values that are sharded together.
class Regions {
 public:
  struct Region {
    double saved_s = 0, communication_s = 0;
    std::vector<NodeId> products;  // that began it
    std::vector<NodeId> behind;    // other products by weights
    std::vector<ConstantId> buffers;
    bool has_attention = false;  // what follows from activations is multiplied by other such
  };

  size_t add() {
    parent_.push_back(parent_.size());
    regions_.emplace_back();
    return parent_.size() - 1;
  }
  size_t find(size_t id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  size_t join(size_t a, size_t b) {
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
  Region& of(size_t id) { return regions_[find(id)]; }
  size_t size() const { return parent_.size(); }
  bool is_root(size_t id) const { return parent_[id] == id; }

 private:
  std::vector<size_t> parent_;
  std::vector<Region> regions_;
};

constexpr size_t kNoRegion = static_cast<size_t>(-1);

struct Start {
  bool is_by_rows = false;
  std::vector<int64_t> segments = {};
};
// What is sharded where the first dim of some inputs is, and nothing else begins.
struct Batch {
  std::vector<bool> inputs;
  std::vector<Sharding> values;
};
struct Starts {
  std::map<NodeId, Start> products;
  std::map<ConstantId, Sharding> buffers;
  std::optional<Batch> batch;
  std::set<NodeId> whole;  // products that each process does for all of the batch
};

bool is_any_sharded(std::span<const Sharding> all) {
  return std::any_of(all.begin(), all.end(), [](const Sharding& each) { return each.is_sharded(); });
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

// The i-th output as the caller wants it, `of_caller`, or the buffer that it updates.
Sharding output_sharding(const Program& program, size_t i, const Sharding& of_caller, const Starts& starts) {
  const OutputSpec& output = program.outputs[i];
  if (output.kind != OutputKind::BufferMutation) return of_caller;
  for (const auto& [id, sharding] : starts.buffers) {
    if (program.constant(id).name == output.target) return sharding;
  }
  return {};
}

// One way through the graph: what is sharded, given what begins it.
class Propagation {
 public:
  // by_weights: all products by weights.
  Propagation(const Program& program, int64_t processes, const Costs& costs, const Starts& starts, const std::set<NodeId>& by_weights,
              Plan& plan)
      : program_(program),
        graph_(program.graph),
        processes_(processes),
        costs_(costs),
        starts_(starts),
        by_weights_(by_weights),
        plan_(plan) {}

  void run() {
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

  Regions& regions() { return regions_; }

 private:
  void visit(NodeId id) {
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

  NodeSharding begin(NodeId id, std::span<const Sharding> held, size_t& region) {
    const Node& node = graph_.node(id);
    if (const auto* constant = std::get_if<Constant>(&node.op)) {
      const auto found = starts_.buffers.find(constant->id);
      if (found != starts_.buffers.end()) {
        region = regions_.add();
        regions_.of(region).buffers.push_back(constant->id);
        return {.operands = {}, .result = found->second};
      }
    }
    if (const auto* input = std::get_if<Input>(&node.op); input != nullptr && plan_.inputs[input->index].is_sharded()) {
      region = regions_.add();
      return {.operands = {}, .result = plan_.inputs[input->index]};
    }
    if (const auto* input = std::get_if<Input>(&node.op); input != nullptr && plan_.has_batch[input->index]) {
      region = regions_.add();
      is_gathered_[static_cast<size_t>(node.outputs[0])] = true;
      return {.operands = {}, .result = {0}};
    }
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

  Sharding of_batch(ValueId value) const { return starts_.batch ? starts_.batch->values[static_cast<size_t>(value)] : Sharding(); }

  // The region of a value that is wanted so; what it takes to have it.
  size_t take(ValueId value, const Sharding& wanted) {
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

  void count(NodeId id, const NodeSharding& sharding, Regions::Region& region) {
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

  double part_seconds(const Node& node, const NodeSharding& sharding) const {
    if (!sharding.result.is_sharded() && !is_any_sharded(sharding.operands)) return seconds(graph_, node, costs_);
    if (is_product(node.op) && !sharding.operands[1].is_sharded()) return seconds(graph_, node, costs_, processes_);
    return seconds(graph_, node, costs_) / static_cast<double>(processes_);
  }

  const Program& program_;
  const Graph& graph_;
  const int64_t processes_;
  const Costs& costs_;
  const Starts& starts_;
  const std::set<NodeId>& by_weights_;
  Plan& plan_;
  Regions regions_;
  std::vector<size_t> region_of_;  // of sharded values
  std::vector<bool> is_gathered_;
};

// Where the columns of a product are taken apart: weights of several layers in one, as of queries, keys and values.
class Segments {
 public:
  Segments(const Graph& graph, int64_t processes) : graph_(graph), processes_(processes), uses_(graph) {}

  // Their lengths; the columns' number must be known.
  std::vector<int64_t> of_columns(ValueId product) const {
    const sym::Expr size = graph_.type(product).sizes.back();
    std::set<int64_t> ends = {size.value()};
    follow(product, static_cast<size_t>(graph_.type(product).rank()) - 1, 1, ends);
    ends.erase(0);
    std::vector<int64_t> lengths;
    int64_t begin = 0;
    for (int64_t end : ends) lengths.push_back(end - std::exchange(begin, end));
    if (lengths.size() == 1) lengths.clear();
    return lengths;
  }

 private:
  // A position of this dim of the value stands for `unit` columns.
  void follow(ValueId value, size_t dim, int64_t unit, std::set<int64_t>& ends) const {
    for (NodeId user : uses_.of(value)) {
      const Node& node = graph_.node(user);
      const ValueId result = node.outputs[0];
      if (std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<Cast>(node.op)) {
        follow(result, dim, unit, ends);
      } else if (const auto* permute = std::get_if<Permute>(&node.op)) {
        const auto to = std::find(permute->dims.begin(), permute->dims.end(), static_cast<int>(dim));
        follow(result, static_cast<size_t>(to - permute->dims.begin()), unit, ends);
      } else if (const auto* slice = std::get_if<Slice>(&node.op)) {
        const sym::Expr start = slice->starts[dim], length = graph_.type(result).sizes[dim];
        if (!start.is_const() || !length.is_const() || !slice->steps[dim].is_const(1)) continue;
        ends.insert({unit * start.value(), unit * (start.value() + length.value())});
      } else if (std::holds_alternative<Reshape>(node.op)) {
        follow_reshape(value, result, dim, unit, ends);
      }
    }
  }

  void follow_reshape(ValueId value, ValueId result, size_t dim, int64_t unit, std::set<int64_t>& ends) const {
    const Sizes& from = graph_.type(value).sizes;
    const Sizes& to = graph_.type(result).sizes;
    const sym::Expr before = sym::product(std::span(from).first(dim));
    const int64_t size = from[dim].value();
    sym::Expr passed = 1;
    for (size_t d = 0; d < to.size(); ++d) {
      if (sym::known_eq(passed, before) && to[d].is_const() && to[d].value() > 1) {
        if (size % to[d].value() != 0) return;
        const int64_t part = size / to[d].value();
        if (to[d].value() % processes_ == 0) return follow(result, d, unit * part, ends);
        // Things that a dim numbers, and of which all processes have a part.
        for (int64_t end = part; end <= size; end += part) ends.insert(unit * end);
        return;
      }
      passed *= to[d];
    }
  }

  const Graph& graph_;
  const int64_t processes_;
  const Uses uses_;
};

class Planner {
 public:
  Planner(const Program& program, int64_t processes, const std::vector<Rule>& rules, const Costs& costs)
      : program_(program),
        graph_(program.graph),
        processes_(processes),
        rules_(rules),
        costs_(costs),
        segments_(graph_, processes),
        is_used_(rules.size()) {}

  Plan run() {
    refuse_collectives();
    take_names();
    take_products();
    require_all_rules();
    take_buffers();
    while (drop_losses()) {
    }
    take_batch();
    for (size_t i = 0; i < plan_.outputs.size(); ++i) plan_.outputs[i] = output_sharding(program_, i, plan_.outputs[i], starts_);
    plan_.buffers = starts_.buffers;
    for (WeightUse& use : plan_.products) {
      const NodeSharding& sharding = plan_.nodes[static_cast<size_t>(use.product)];
      use.by_rows = sharding.is_partial;
      use.by_columns = !use.by_rows && sharding.operands[1].is_sharded();
      use.by_batch = starts_.batch && !use.by_rows && !use.by_columns && sharding.operands[0].is_sharded();
    }
    return std::move(plan_);
  }

 private:
  void refuse_collectives() const {
    for (const Node& node : graph_.nodes()) {
      if (!is_collective(node.op)) continue;
      throw Error(ErrorKind::Unsupported, "the model is one of several processes already")
          .help("compile what was exported for one process, or leave out --tensor-parallel");
    }
  }

  const Rule* rule_of(std::string_view name) {
    const Rule* rule = rule_for(rules_, name);
    if (rule != nullptr) is_used_[static_cast<size_t>(rule - rules_.data())] = true;
    return rule;
  }

  Sharding caller_sharding(std::string_view name, const TensorType& type) {
    const Rule* rule = rule_of(name);
    if (rule == nullptr || rule->kind != RuleKind::Dim) return {};
    if (rule->dim < type.rank() && can_shard(type, {rule->dim}, processes_)) return {rule->dim};
    throw Error(ErrorKind::InvalidOption, fmt::format("'{}' cannot be cut along dim {} among {} processes", name, rule->dim, processes_))
        .help("a dim that is cut has a fixed size, which is a multiple of the processes");
  }

  void take_names() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      plan_.inputs.push_back(caller_sharding(program_.inputs[i].name, graph_.type(graph_.inputs[i])));
    }
    const std::vector<std::string> names = output_names(program_);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) plan_.outputs.push_back(caller_sharding(names[i], graph_.type(graph_.outputs[i])));
  }

  void add_weights_of(ValueId value, std::set<ConstantId>& weights) const {
    const Node& node = graph_.producer(value);
    if (const auto* constant = std::get_if<Constant>(&node.op)) weights.insert(constant->id);
    for (ValueId input : node.inputs) add_weights_of(input, weights);
  }

  void take_products() {
    const std::vector<Constancy> constancy = constant_values(program_);
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      const Node& node = graph_.node(id);
      if (!is_product(node.op) || constancy[static_cast<size_t>(node.inputs[1])] != Constancy::Weights) continue;
      std::set<ConstantId> weights;
      add_weights_of(node.inputs[1], weights);
      by_weights_.insert(id);
      begin_at(id, weights);
      plan_.products.push_back({.product = id, .weights = {weights.begin(), weights.end()}});
    }
  }

  void begin_at(NodeId id, const std::set<ConstantId>& weights) {
    const Rule* rule = nullptr;
    for (ConstantId weight : weights) {
      if (const Rule* found = rule_of(program_.constant(weight).name); found != nullptr && rule == nullptr) rule = found;
    }
    if (rule != nullptr && rule->kind == RuleKind::Replicated) starts_.whole.insert(id);
    if (rule != nullptr && rule->kind == RuleKind::Batch) by_batch_[id] = rule;
    if (rule != nullptr && (rule->kind == RuleKind::Replicated || rule->kind == RuleKind::Batch)) return;
    const bool is_forced = rule != nullptr && rule->kind != RuleKind::Dim;
    Start start = {.is_by_rows = is_forced && rule->kind == RuleKind::Rows};
    const TensorType& right = graph_.type(graph_.node(id).inputs[1]);
    Sharding sharding{static_cast<int>(right.rank()) - (start.is_by_rows ? 2 : 1)};
    if (!start.is_by_rows && right.sizes.back().is_const()) {
      sharding.segments = segments_.of_columns(graph_.node(id).outputs[0]);
      if (!can_shard(right, sharding, processes_)) sharding.segments.clear();
    }
    if (!can_shard(right, sharding, processes_)) {
      if (!is_forced || rule->is_of_many()) return;
      throw Error(ErrorKind::InvalidOption,
                  fmt::format("'{}' cannot be cut by {} among {} processes", program_.constant(*weights.begin()).name,
                              start.is_by_rows ? "rows" : "columns", processes_))
          .help("what is cut has a size that is a multiple of the processes");
    }
    start.segments = std::move(sharding.segments);
    starts_.products[id] = std::move(start);
    if (is_forced) forced_.insert(id);
  }

  void require_all_rules() const {
    for (size_t i = 0; i < rules_.size(); ++i) {
      if (is_used_[i]) continue;
      throw Error(ErrorKind::InvalidOption, fmt::format("the rule '{}' is of nothing in the model", rules_[i].pattern))
          .help("toroid shard MODEL --tensor-parallel N names the weights of products");
    }
  }

  // State whose new value arrives sharded is kept so.
  void take_buffers() {
    for (bool more = true; more;) {
      Propagation propagation(program_, processes_, costs_, starts_, by_weights_, plan_);
      propagation.run();
      more = false;
      for (size_t node = 0; node < graph_.num_nodes(); ++node) {
        const auto* constant = std::get_if<Constant>(&graph_.node(NodeId{static_cast<uint32_t>(node)}).op);
        if (constant == nullptr || starts_.buffers.contains(constant->id)) continue;
        const std::optional<uint32_t> update = update_of(program_, constant->id);
        if (!update) continue;
        const Sharding& sharding = plan_.values[static_cast<size_t>(graph_.outputs[*update])];
        if (!sharding.is_sharded()) continue;
        starts_.buffers[constant->id] = sharding;
        more = true;
      }
    }
  }

  // Takes back what costs more than it saves; false where nothing does.
  bool drop_losses() {
    Propagation propagation(program_, processes_, costs_, starts_, by_weights_, plan_);
    propagation.run();
    Regions& regions = propagation.regions();
    bool dropped = false;
    for (size_t i = 0; i < regions.size(); ++i) {
      if (!regions.is_root(i)) continue;
      const Regions::Region& region = regions.of(i);
      if (region.saved_s >= region.communication_s) continue;
      for (NodeId product : region.products) dropped = (!forced_.contains(product) && starts_.products.erase(product) > 0) || dropped;
      for (ConstantId buffer : region.buffers) dropped = starts_.buffers.erase(buffer) > 0 || dropped;
    }
    return dropped;
  }

  // ---- along the batch

  void take_batch() {
    const bool is_asked = !by_batch_.empty();
    const bool has_state =
        std::any_of(program_.outputs.begin(), program_.outputs.end(), [](const OutputSpec& each) { return each.kind != OutputKind::User; });
    if (!is_asked && has_state) return;
    Starts trial = starts_;
    if (!is_asked && !leave_attention(trial)) return;
    const double most_bytes = kMostGrowth * held_bytes(plan_);
    double least_s = is_asked ? std::numeric_limits<double>::infinity() : kMostTime * plan_.seconds;
    std::optional<Starts> best;
    for (std::vector<bool>& inputs : batches()) {
      trial.batch = batch_through(graph_, std::move(inputs), processes_);
      Plan plan = plan_;
      Propagation(program_, processes_, costs_, trial, by_weights_, plan).run();
      const bool may = is_asked ? follows_rules(plan) : held_bytes(plan) <= most_bytes;
      if (!may || plan.seconds >= least_s) continue;
      least_s = plan.seconds;
      best = trial;
    }
    if (best) {
      starts_ = std::move(*best);
      Propagation(program_, processes_, costs_, starts_, by_weights_, plan_).run();
      return;
    }
    for (const auto& [product, rule] : by_batch_) {
      if (rule->is_of_many()) continue;
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' meets no batch that is cut among {} processes", rule->pattern, processes_))
          .help("a batch is the first dim of an input, of a fixed size that is a multiple of the processes");
    }
  }

  // Without products of regions with attention, as far as no rule asks for these; false where there are none.
  bool leave_attention(Starts& starts) {
    Propagation propagation(program_, processes_, costs_, starts_, by_weights_, plan_);
    propagation.run();
    Regions& regions = propagation.regions();
    bool leaves = false;
    for (size_t i = 0; i < regions.size(); ++i) {
      const Regions::Region& region = regions.of(i);
      if (!regions.is_root(i) || !region.has_attention) continue;
      for (const auto* list : {&region.products, &region.behind}) {
        for (NodeId product : *list) leaves = (!forced_.contains(product) && starts.products.erase(product) > 0) || leaves;
      }
    }
    return leaves;
  }

  // Sets of inputs that have the same first size.
  std::vector<std::vector<bool>> batches() const {
    std::map<int64_t, std::vector<bool>> by_size;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const TensorType& type = graph_.type(graph_.inputs[i]);
      if (type.rank() == 0 || plan_.inputs[i].is_sharded() || !can_shard(type, {0}, processes_)) continue;
      by_size.try_emplace(type.sizes[0].value(), graph_.inputs.size()).first->second[i] = true;
    }
    std::vector<std::vector<bool>> result;
    for (auto& [size, inputs] : by_size) result.push_back(std::move(inputs));
    return result;
  }

  // Is some product that a rule wants so, and each that a rule names?
  bool follows_rules(const Plan& plan) const {
    bool any = false;
    for (const auto& [product, rule] : by_batch_) {
      const NodeSharding& sharding = plan.nodes[static_cast<size_t>(product)];
      const bool is_so = sharding.operands[0].is_sharded() && !sharding.operands[1].is_sharded();
      if (!is_so && !rule->is_of_many()) return false;
      any = any || is_so;
    }
    return any;
  }

  // Of products' weights, in a process.
  double held_bytes(const Plan& plan) const {
    std::map<ConstantId, double> all;
    for (const WeightUse& use : plan.products) {
      const bool is_cut = plan.nodes[static_cast<size_t>(use.product)].operands[1].is_sharded();
      for (ConstantId id : use.weights) {
        double& held = all[id];
        held = std::max(held, bytes(program_.constant(id).type) / (is_cut ? static_cast<double>(processes_) : 1));
      }
    }
    double sum = 0;
    for (const auto& [id, held] : all) sum += held;
    return sum;
  }

  const Program& program_;
  const Graph& graph_;
  const int64_t processes_;
  const std::vector<Rule>& rules_;
  const Costs& costs_;
  Segments segments_;
  std::vector<bool> is_used_;  // by rule
  Starts starts_;
  std::set<NodeId> forced_, by_weights_;
  std::map<NodeId, const Rule*> by_batch_;  // products that rules want so
  Plan plan_;
};

}  // namespace

Plan plan_shards(const Program& program, int64_t processes, const std::vector<Rule>& rules, const Costs& costs) {
  return Planner(program, processes, rules, costs).run();
}

}  // namespace toroid::shard
