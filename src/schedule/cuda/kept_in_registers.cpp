#include "schedule/cuda/kept_in_registers.h"

#include <map>

#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "support/match.h"

namespace toroid::schedule {

using loop::ExprTable;

void compute_again(ExprTable& exprs, Kernel& kernel) {
  if (kernel.stashes.empty()) return;
  const std::vector<ExprId> kept = kept_values(kernel);
  ExprTable::Memo memo;
  ExprTable::Leaf leaf = [&](ExprId id) -> std::optional<ExprId> {
    const auto* stashed = std::get_if<loop::Stashed>(&exprs.node(id).op);
    if (stashed == nullptr) return std::nullopt;
    return exprs.rewrite(kept[static_cast<size_t>(stashed->id)], {}, leaf, memo);
  };
  for (Stage& stage : kernel.stages) {
    std::erase_if(stage.statements, [](const Statement& s) { return std::holds_alternative<Keep>(s); });
    for (Statement& statement : stage.statements) match(statement, [&](auto& s) { s.value = exprs.rewrite(s.value, {}, leaf, memo); });
  }
  kernel.stashes.clear();
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
  for (const auto& [load, span] : stages) {
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

}  // namespace toroid::schedule
