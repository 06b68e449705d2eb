#include "passes/shard/plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/constant_values.h"
#include "passes/shard/propagation.h"
#include "passes/uses.h"

namespace toroid::shard {
namespace {

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
    if (rule == nullptr || rule->kind == RuleKind::Replicated) return {};
    if (rule->kind != RuleKind::Dim) {
      if (rule->is_of_many()) return {};
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is no weight of a product but an input or result", name))
          .help("an input or result is cut along a dim, as in 'x dim 0'; columns, rows and batch are of weights");
    }
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
