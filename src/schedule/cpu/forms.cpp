#include "schedule/cpu/forms.h"

#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>

#include "schedule/buffer_lists.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/fusion/group.h"
#include "schedule/work.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using loop::ExprTable;

void choose_ways_through_caches(const loop::LoopProgram& program, Kernel& kernel) {
  use_streaming_stores(program, kernel);
  fetch_rows(program, kernel);
  fetch_streams(program, kernel);
}

// Can the other form give the same bits? A stash holds a value for each lane; computed again, one that is the same in all lanes would be
// computed by the functions for single numbers. And what a kernel reads must not be what it writes.
bool can_have_either(const loop::LoopProgram& program, const Kernel& kernel) {
  if (kernel.vector == VectorAlong::None) return false;
  const sym::Expr vector = kernel.vector == VectorAlong::Inner ? kernel.inner.back() : kernel.outer.back();
  const std::vector<ExprId> values = kept_values(kernel);
  const std::unordered_set<ExprId> lanes = varying(program.exprs, values, {vector});
  if (!std::all_of(values.begin(), values.end(), [&](ExprId value) { return lanes.contains(value); })) return false;
  return !shares_any(kernel.reads, kernel.writes);
}

// ---- the other form -------------------------------------------------------------------------------------------------

// Puts what some of the stashes keep in their place; the others get new numbers. `unfused` becomes what all of them keep.
void compute_again(loop::LoopProgram& program, Kernel& kernel, const std::vector<bool>& again) {
  ExprTable& exprs = program.exprs;
  const std::vector<ExprId> kept = kept_values(kernel);
  std::vector<DType> stashes;
  std::vector<StashId> number(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    number[i] = StashId{static_cast<uint32_t>(stashes.size())};
    if (!again[i]) stashes.push_back(kernel.stashes[i]);
  }
  ExprTable::Memo memo;
  ExprTable::Leaf leaf = [&](ExprId id) -> std::optional<ExprId> {
    const auto* stashed = std::get_if<loop::Stashed>(&exprs.node(id).op);
    if (stashed == nullptr) return std::nullopt;
    const auto i = static_cast<size_t>(stashed->id);
    if (!again[i]) {
      exprs.set_origin(exprs.node(id).origin);
      return exprs.add(loop::Stashed{number[i]}, kernel.stashes[i]);
    }
    return exprs.rewrite(kept[i], {}, leaf, memo);  // of stashes of earlier stages
  };
  kernel.unfused.clear();
  for (ExprId id : kept) kernel.unfused.push_back(exprs.rewrite(id, {}, leaf, memo));
  for (Stage& stage : kernel.stages) {
    std::vector<Statement> statements;
    for (Statement& statement : stage.statements) {
      auto* keep = std::get_if<Keep>(&statement);
      if (keep != nullptr && again[static_cast<size_t>(keep->stash)]) continue;
      match(statement, [&](auto& s) { s.value = exprs.rewrite(s.value, {}, leaf, memo); });
      if (keep != nullptr) keep->stash = number[static_cast<size_t>(keep->stash)];
      statements.push_back(std::move(statement));
    }
    stage.statements = std::move(statements);
  }
  kernel.stashes = std::move(stashes);
}

// ---- the choice -----------------------------------------------------------------------------------------------------

void choose_form(loop::LoopProgram& program, Kernel& kernel, Forms forms, bool may_have_two) {
  if (kernel.stashes.empty()) return;
  const bool either = can_have_either(program, kernel);
  const bool is_pinned = either && (forms == Forms::Persistent || forms == Forms::Looped);
  // By stash: is it computed again in that form? What is clear is the same in both.
  std::vector<bool> persistent, looped;
  Kernel::FormEstimate estimate = {0, 0}, all = {0, 0};
  for (const StashCost& each : stash_costs(program, kernel)) {
    persistent.push_back(each.keep > kCloseness * each.again);
    looped.push_back(is_pinned || kCloseness * each.keep >= each.again);
    estimate.persistent += persistent.back() ? each.again : each.keep;
    estimate.looped += looped.back() ? each.again : each.keep;
    all = {all.persistent + each.keep, all.looped + each.again};
  }
  const bool is_close = persistent != looped;
  Form better = estimate.looped < estimate.persistent ? Form::Looped : Form::Persistent;
  if (!is_close) better = std::find(looped.begin(), looped.end(), false) == looped.end() ? Form::Looped : Form::Persistent;
  if (is_pinned) better = forms == Forms::Looped ? Form::Looped : Form::Persistent;
  if (either) kernel.form_estimate = is_close ? estimate : all;
  std::optional<Kernel> other;
  if (either && is_close && may_have_two && forms == Forms::Measured && work_hint(kernel) >= kLeastWork) other = kernel;
  compute_again(program, kernel, better == Form::Looped ? looped : persistent);
  if (!either) return kernel.unfused.clear();
  kernel.form = better;
  if (!other) return;
  compute_again(program, *other, better == Form::Looped ? persistent : looped);
  other->form = better == Form::Looped ? Form::Persistent : Form::Looped;
  other->name += fmt::format("_{}", to_string(*other->form));
  choose_ways_through_caches(program, *other);
  kernel.other_forms.push_back(std::move(*other));
}

// In the time that a byte takes from or to memory; so long takes a product sixteen operations.
double rough_time(const loop::LoopProgram& program, const Step& step) {
  const StepWork work = work_of(program, step);
  return static_cast<double>(sym::evaluate_hint(work.bytes)) + static_cast<double>(sym::evaluate_hint(work.flops)) / 16;
}

void choose_form_and_fetches(loop::LoopProgram& program, Kernel& kernel, Forms forms, bool may_have_two) {
  for (Kernel& each : kernel.finish) choose_form_and_fetches(program, each, forms, false);
  choose_form(program, kernel, forms, may_have_two);
  choose_ways_through_caches(program, kernel);
}

}  // namespace

std::string_view to_string(Form form) { return form == Form::Persistent ? "persistent" : "looped"; }

std::string_view to_string(Forms forms) {
  constexpr std::string_view kNames[] = {"measured", "estimated", "persistent", "looped"};
  return kNames[static_cast<size_t>(forms)];
}

std::optional<Forms> parse_forms(std::string_view text) {
  for (const Forms each : {Forms::Measured, Forms::Estimated, Forms::Persistent, Forms::Looped}) {
    if (text == to_string(each)) return each;
  }
  return std::nullopt;
}

void choose_forms(loop::LoopProgram& program, std::vector<Step>& steps, Forms forms) {
  const bool may_be_measured = forms == Forms::Measured;
  std::map<std::string, double> times;  // of all steps with that name; layers of a model have kernels of the same name
  double all = 0;
  for (const Step& step : may_be_measured ? std::span<const Step>(steps) : std::span<const Step>()) {
    const double time = rough_time(program, step);
    times[name_of(step)] += time;
    all += time;
  }
  for (Step& step : steps) {
    if (auto* kernel = std::get_if<Kernel>(&step)) {
      choose_form_and_fetches(program, *kernel, forms, may_be_measured && times.at(kernel->name) >= kLeastShare * all);
    }
    auto* group = std::get_if<ParallelKernels>(&step);
    if (group == nullptr) continue;
    for (ParallelKernel& each : group->kernels) {
      if (auto* kernel = std::get_if<Kernel>(&each)) choose_form_and_fetches(program, *kernel, forms, false);
    }
  }
}

}  // namespace toroid::schedule
