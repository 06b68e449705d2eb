#include "schedule/forms.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_set>

#include "lower/cost.h"
#include "schedule/group.h"
#include "schedule/work.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using loop::ExprTable;

ExprId value_of(const Statement& statement) {
  return match(statement, [](const auto& s) { return s.value; });
}

std::vector<ExprId> values_of(const Stage& stage) {
  std::vector<ExprId> values;
  for (const Statement& statement : stage.statements) values.push_back(value_of(statement));
  return values;
}

int64_t hint(sym::Expr axis) { return sym::evaluate_hint(*axis.node()->extent); }

// Those of the expressions below `roots` that change along some of the axes.
std::unordered_set<ExprId> varying(const ExprTable& exprs, const std::vector<ExprId>& roots, const std::vector<sym::Expr>& axes) {
  std::unordered_set<ExprId> result;
  auto moves = [&](sym::Expr e) {
    return std::any_of(axes.begin(), axes.end(), [&](sym::Expr axis) { return sym::depends_on(e, axis); });
  };
  for (ExprId id : loop::reachable(exprs, roots)) {   // operands before users
    const loop::ExprOp& op = exprs.node(id).op;
    const auto* load = std::get_if<loop::Load>(&op);
    const auto* index = std::get_if<loop::Index>(&op);
    const std::vector<ExprId> operands = exprs.operands(id);
    if (std::holds_alternative<loop::Stashed>(op) || (load != nullptr && moves(load->index[0])) || (index != nullptr && moves(index->value)) ||
        std::any_of(operands.begin(), operands.end(), [&](ExprId each) { return result.contains(each); })) {
      result.insert(id);
    }
  }
  return result;
}

// What each stash keeps, by its number.
std::vector<ExprId> kept_values(const Kernel& kernel) {
  std::vector<ExprId> values(kernel.stashes.size());
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) {
      if (const auto* keep = std::get_if<Keep>(&statement)) values[static_cast<size_t>(keep->stash)] = keep->value;
    }
  }
  return values;
}

// Can the other form give the same bits? A stash holds a value for each lane; computed again, one that is the same in all lanes would be computed
// by the functions for single numbers. And what a kernel reads must not be what it writes.
bool can_have_either(const loop::LoopProgram& program, const Kernel& kernel) {
  if (kernel.vector == VectorAlong::None) return false;
  const sym::Expr vector = kernel.vector == VectorAlong::Inner ? kernel.inner.back() : kernel.outer.back();
  const std::vector<ExprId> values = kept_values(kernel);
  const std::unordered_set<ExprId> lanes = varying(program.exprs, values, {vector});
  if (!std::all_of(values.begin(), values.end(), [&](ExprId value) { return lanes.contains(value); })) return false;
  return std::none_of(kernel.reads.begin(), kernel.reads.end(), [&](BufferId id) {
    return std::find(kernel.writes.begin(), kernel.writes.end(), id) != kernel.writes.end();
  });
}

// ---- estimates, in cycles for each vector -----------------------------------------------------------------------------------------------------

// Of a vector in the cache that holds all that is in use.
struct MemoryCost {
  double load, store;
};
MemoryCost memory_cost(double bytes_in_use) {
  if (bytes_in_use <= 32e3) return {0.5, 1.25};
  if (bytes_in_use <= 1e6) return {1.5, 3};
  return {5, 10};
}

struct Estimate {
  double keep, again;   // to keep the value; to compute it again where it is needed
};

Estimate estimate_of(const loop::LoopProgram& program, const Kernel& kernel, size_t stash) {
  constexpr double kOperation = 0.5, kDivision = 5, kFunction = 10;
  const ExprTable& exprs = program.exprs;
  const ExprId value = kept_values(kernel)[stash];
  int uses = 0;   // stages that need it later
  for (const Stage& stage : kernel.stages) {
    const std::vector<ExprId> all = loop::reachable(exprs, values_of(stage));
    uses += std::any_of(all.begin(), all.end(), [&](ExprId id) {
      const auto* stashed = std::get_if<loop::Stashed>(&exprs.node(id).op);
      return stashed != nullptr && static_cast<size_t>(stashed->id) == stash;
    }) ? 1 : 0;
  }
  double row = kernel.vector == VectorAlong::Outer ? static_cast<double>(std::min<int64_t>(512, hint(kernel.outer.back()))) : 1;
  for (sym::Expr axis : kernel.inner) row *= static_cast<double>(hint(axis));
  double bytes = 0;   // of a row of all that the kernel reads along it
  for (BufferId id : kernel.reads) {
    for (ExprId each : loop::reachable(exprs, kept_values(kernel))) {
      const auto* load = std::get_if<loop::Load>(&exprs.node(each).op);
      if (load == nullptr || load->buffer != id) continue;
      bytes += row * static_cast<double>(size_bytes(program.buffer(id).dtype));
      break;
    }
  }
  const MemoryCost looped = memory_cost(bytes);
  const MemoryCost persistent = memory_cost(bytes + row * static_cast<double>(size_bytes(kernel.stashes[stash])));
  double once = 0;
  for (ExprId id : varying(exprs, {value}, kernel.inner)) {
    const loop::ExprOp& op = exprs.node(id).op;
    const auto* compute = std::get_if<loop::Compute>(&op);
    if (std::holds_alternative<loop::Load>(op) || std::holds_alternative<loop::Stashed>(op)) {
      once += looped.load;
    } else if (compute != nullptr && is_transcendental(compute->op)) {
      once += kFunction;
    } else if (compute != nullptr && (compute->op == ScalarOp::Div || compute->op == ScalarOp::Sqrt || compute->op == ScalarOp::Rsqrt)) {
      once += kDivision;
    } else {
      once += kOperation;
    }
  }
  return {persistent.store + uses * persistent.load, uses * once};
}

// ---- the other form ---------------------------------------------------------------------------------------------------------------------------

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
    return exprs.rewrite(kept[i], {}, leaf, memo);   // of stashes of earlier stages
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

// ---- the choice -------------------------------------------------------------------------------------------------------------------------------

void choose_form(loop::LoopProgram& program, Kernel& kernel, Forms forms, bool may_have_two) {
  if (kernel.stashes.empty()) return;
  const bool either = can_have_either(program, kernel);
  const bool is_pinned = either && (forms == Forms::Persistent || forms == Forms::Looped);
  // By stash: is it computed again in that form? What is clear is the same in both.
  std::vector<bool> persistent, looped;
  Kernel::FormEstimate estimate = {0, 0};
  for (size_t i = 0; i < kernel.stashes.size(); ++i) {
    const Estimate each = estimate_of(program, kernel, i);
    persistent.push_back(!is_pinned && each.keep > kCloseness * each.again);
    looped.push_back(is_pinned || kCloseness * each.keep >= each.again);
    estimate.persistent += persistent.back() ? each.again : each.keep;
    estimate.looped += looped.back() ? each.again : each.keep;
  }
  const bool is_close = persistent != looped;
  Form better = estimate.looped < estimate.persistent ? Form::Looped : Form::Persistent;
  if (!is_close) better = std::find(looped.begin(), looped.end(), false) == looped.end() ? Form::Looped : Form::Persistent;
  if (is_pinned) better = forms == Forms::Looped ? Form::Looped : Form::Persistent;
  if (either) kernel.form_estimate = estimate;
  std::optional<Kernel> other;
  if (either && is_close && may_have_two && forms == Forms::Measured && work_hint(kernel) >= kLeastWork) other = kernel;
  compute_again(program, kernel, better == Form::Looped ? looped : persistent);
  if (!either) return kernel.unfused.clear();
  kernel.form = better;
  if (!other) return;
  compute_again(program, *other, better == Form::Looped ? persistent : looped);
  other->form = better == Form::Looped ? Form::Persistent : Form::Looped;
  other->name += fmt::format("_{}", to_string(*other->form));
  fetch_rows(program, *other);
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
  fetch_rows(program, kernel);
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
  std::map<std::string, double> times;   // of all steps with that name; layers of a model have kernels of the same name
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
    auto* group = std::get_if<GroupStep>(&step);
    if (group == nullptr) continue;
    for (Kernel& kernel : group->kernels) choose_form_and_fetches(program, kernel, forms, false);
  }
}

}  // namespace toroid::schedule
