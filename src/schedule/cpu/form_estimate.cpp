#include "schedule/cpu/form_estimate.h"

#include <algorithm>
#include <set>

#include "lower/cost.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

std::vector<ExprId> values_of(const Stage& stage) {
  std::vector<ExprId> values;
  for (const Statement& statement : stage.statements) values.push_back(value_of(statement));
  return values;
}

double extent_of(sym::Expr axis) { return static_cast<double>(sym::evaluate_hint(*axis.node()->extent)); }

// Of a vector in the cache that holds all that is in use.
struct MemoryCost {
  double load, store;
};
MemoryCost memory_cost(double bytes_in_use) {
  if (bytes_in_use <= 32e3) return {0.5, 2.5};
  if (bytes_in_use <= 1e6) return {1.5, 5};
  if (bytes_in_use <= 8e6) return {5, 10};
  return {5, 60};  // a stash of that size is new memory each time
}

// Of computing `value` once, without what other stashes keep.
double cost_once(const loop::LoopProgram& program, const Kernel& kernel, ExprId value, double load_cost) {
  constexpr double kOperation = 0.5, kWidening = 2, kRounding = 3, kDivision = 5, kFunction = 10;
  double cost = 0;
  for (ExprId id : varying(program.exprs, {value}, kernel.inner)) {
    const loop::ExprOp& op = program.exprs.node(id).op;
    const auto* compute = std::get_if<loop::Compute>(&op);
    const auto* load = std::get_if<loop::Load>(&op);
    const auto* bits = std::get_if<loop::BitcastTo>(&op);
    if (load != nullptr) {
      cost += load_cost + (is_reduced_float(program.buffer(load->buffer).dtype) ? kWidening : 0);
    } else if (std::holds_alternative<loop::Stashed>(op)) {
      cost += load_cost;
    } else if (bits != nullptr && is_reduced_float(bits->from)) {
      cost += kRounding;
    } else if (compute != nullptr && is_transcendental(compute->op)) {
      cost += kFunction;
    } else if (compute != nullptr && (compute->op == ScalarOp::Div || compute->op == ScalarOp::Sqrt || compute->op == ScalarOp::Rsqrt)) {
      cost += kDivision;
    } else {
      cost += kOperation;
    }
  }
  return cost;
}

// Stashes that the expressions read.
std::set<size_t> stashes_below(const loop::ExprTable& exprs, const std::vector<ExprId>& roots) {
  std::set<size_t> result;
  for (ExprId id : loop::reachable(exprs, roots)) {
    if (const auto* stashed = std::get_if<loop::Stashed>(&exprs.node(id).op)) result.insert(static_cast<size_t>(stashed->id));
  }
  return result;
}

}  // namespace

std::unordered_set<ExprId> varying(const loop::ExprTable& exprs, const std::vector<ExprId>& roots, const std::vector<sym::Expr>& axes) {
  std::unordered_set<ExprId> result;
  auto moves = [&](sym::Expr e) { return std::any_of(axes.begin(), axes.end(), [&](sym::Expr axis) { return sym::depends_on(e, axis); }); };
  for (ExprId id : loop::reachable(exprs, roots)) {  // operands before users
    const loop::ExprOp& op = exprs.node(id).op;
    const auto* load = std::get_if<loop::Load>(&op);
    const auto* index = std::get_if<loop::Index>(&op);
    const std::vector<ExprId> operands = exprs.operands(id);
    if (std::holds_alternative<loop::Stashed>(op) || (load != nullptr && moves(load->index[0])) ||
        (index != nullptr && moves(index->value)) ||
        std::any_of(operands.begin(), operands.end(), [&](ExprId each) { return result.contains(each); })) {
      result.insert(id);
    }
  }
  return result;
}

std::vector<ExprId> kept_values(const Kernel& kernel) {
  std::vector<ExprId> values(kernel.stashes.size());
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) {
      if (const auto* keep = std::get_if<Keep>(&statement)) values[static_cast<size_t>(keep->stash)] = keep->value;
    }
  }
  return values;
}

std::vector<StashCost> stash_costs(const loop::LoopProgram& program, const Kernel& kernel) {
  const loop::ExprTable& exprs = program.exprs;
  const std::vector<ExprId> kept = kept_values(kernel);
  std::vector<std::set<size_t>> users(kept.size());  // later stages that need it
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].condition) continue;  // for few rows
    for (size_t i : stashes_below(exprs, values_of(kernel.stages[s]))) users[i].insert(s);
  }
  double row = kernel.vector == VectorAlong::Outer ? std::min(512.0, extent_of(kernel.outer.back())) : 1;
  for (sym::Expr axis : kernel.inner) row *= extent_of(axis);
  std::set<BufferId> read;
  for (ExprId id : loop::reachable(exprs, kept)) {
    if (const auto* load = std::get_if<loop::Load>(&exprs.node(id).op)) read.insert(load->buffer);
  }
  double bytes = 0;  // of a row of each
  for (BufferId id : read) bytes += row * static_cast<double>(size_bytes(program.buffer(id).dtype));

  std::vector<StashCost> costs(kept.size());
  for (size_t i = kept.size(); i-- > 0;) {
    const auto uses = static_cast<double>(users[i].size());
    const MemoryCost persistent = memory_cost(bytes + row * static_cast<double>(size_bytes(kernel.stashes[i])));
    costs[i] = {persistent.store + uses * persistent.load, uses * cost_once(program, kernel, kept[i], memory_cost(bytes).load)};
    // Where it is computed again, so is, or is read, what it is made of.
    if (costs[i].again > kCloseness * costs[i].keep) continue;
    for (size_t below : stashes_below(exprs, {kept[i]})) users[below].insert(users[i].begin(), users[i].end());
  }
  return costs;
}

}  // namespace toroid::schedule
