#include "schedule/cuda/kept_in_registers.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <vector>

#include "lower/cost.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {

using loop::ExprTable;

namespace {

// Without the stashes that are not `stays`.
void compute_others_again(ExprTable& exprs, Kernel& kernel, const std::vector<bool>& stays) {
  const std::vector<ExprId> kept = kept_values(kernel);
  std::vector<StashId> numbers(kept.size());
  std::vector<DType> stashes;
  for (size_t i = 0; i < kept.size(); ++i) {
    numbers[i] = StashId{static_cast<uint32_t>(stashes.size())};
    if (stays[i]) stashes.push_back(kernel.stashes[i]);
  }
  ExprTable::Memo memo;
  ExprTable::Leaf leaf = [&](ExprId id) -> std::optional<ExprId> {
    const auto* stashed = std::get_if<loop::Stashed>(&exprs.node(id).op);
    if (stashed == nullptr) return std::nullopt;
    const auto i = static_cast<size_t>(stashed->id);
    if (!stays[i]) return exprs.rewrite(kept[i], {}, leaf, memo);
    exprs.set_origin(exprs.node(id).origin);
    return exprs.add(loop::Stashed{numbers[i]}, exprs.dtype(id));
  };
  for (Stage& stage : kernel.stages) {
    std::erase_if(stage.statements, [&](const Statement& s) {
      const auto* keep = std::get_if<Keep>(&s);
      return keep != nullptr && !stays[static_cast<size_t>(keep->stash)];
    });
    for (Statement& statement : stage.statements) {
      match(statement, [&](auto& s) { s.value = exprs.rewrite(s.value, {}, leaf, memo); });
      if (auto* keep = std::get_if<Keep>(&statement)) keep->stash = numbers[static_cast<size_t>(keep->stash)];
    }
  }
  kernel.stashes = std::move(stashes);
}

}  // namespace

void compute_again(ExprTable& exprs, Kernel& kernel) {
  if (!kernel.stashes.empty()) compute_others_again(exprs, kernel, std::vector<bool>(kernel.stashes.size(), false));
}

void compute_cheap_again(ExprTable& exprs, Kernel& kernel) {
  constexpr int kMostArithmetic = 8;
  if (kernel.stashes.empty()) return;
  std::vector<bool> stays;
  for (ExprId value : kept_values(kernel)) {
    const ExprCost cost = cost_of(exprs, value);
    const std::unordered_set<ExprId> changing = varying(exprs, {value}, kernel.inner);
    const bool is_read = std::any_of(changing.begin(), changing.end(), [&](ExprId id) {
      const loop::ExprOp& op = exprs.node(id).op;
      return std::holds_alternative<loop::Load>(op) || std::holds_alternative<loop::Stashed>(op);
    });
    stays.push_back(is_read || cost.transcendental > 0 || cost.arithmetic > kMostArithmetic);
  }
  compute_others_again(exprs, kernel, stays);
}

void keep_loads(ExprTable& exprs, Kernel& kernel, size_t room) {
  std::map<ExprId, std::pair<size_t, size_t>> stages;  // of each load, the first and the last
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (!kernel.stages[s].inner) continue;
    Kernel alone;
    alone.stages = {kernel.stages[s]};
    for (ExprId load : unconditional_loads(exprs, alone)) {
      if (!varying(exprs, {load}, kernel.inner).empty()) stages.try_emplace(load, s, s).first->second.second = s;
    }
  }
  // What is the same in all rows comes last: a cache has it.
  std::vector<std::pair<ExprId, std::pair<size_t, size_t>>> found(stages.begin(), stages.end());
  std::stable_partition(found.begin(), found.end(), [&](const auto& each) { return !varying(exprs, {each.first}, kernel.outer).empty(); });
  for (const auto& [load, span] : found) {
    if (span.first == span.second || kernel.stashes.size() >= room) continue;
    const StashId stash{static_cast<uint32_t>(kernel.stashes.size())};
    kernel.stashes.push_back(exprs.dtype(load));
    exprs.set_origin(exprs.node(load).origin);
    const ExprId stashed = exprs.add(loop::Stashed{stash}, exprs.dtype(load));
    ExprTable::Memo memo;
    const ExprTable::Leaf leaf = [&, load = load](ExprId id) -> std::optional<ExprId> {
      return id == load ? std::optional(stashed) : std::nullopt;
    };
    for (size_t s = span.first + 1; s < kernel.stages.size(); ++s) {
      for (Statement& statement : kernel.stages[s].statements)
        match(statement, [&](auto& each) { each.value = exprs.rewrite(each.value, {}, leaf, memo); });
    }
    std::vector<Statement>& first = kernel.stages[span.first].statements;
    first.insert(first.begin(), Keep{stash, load});
  }
}

int registers_of(const Kernel& kernel) {
  int64_t bytes = 0;
  for (DType dtype : kernel.stashes) bytes += std::max<int64_t>(size_bytes(dtype), 4);
  return static_cast<int>(bytes / 4);
}

Kernel with_nothing_kept(loop::LoopProgram& program, const Kernel& kernel) {
  Kernel other = kernel;
  compute_again(program.exprs, other);
  other.gpu->items = 0;
  other.gpu->shared = false;
  other.unfused.clear();
  round_shared_products(program, other);
  return other;
}

}  // namespace toroid::schedule
