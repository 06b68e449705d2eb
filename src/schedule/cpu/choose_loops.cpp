// Chooses the loops of a kernel from the strides of all its accesses together.
//
// The vector axis is the one along which most loads and stores are contiguous. Neighbouring axes that every access walks as one
// are merged: [b, s, h] with all operands contiguous becomes a single loop.
#include <algorithm>
#include <unordered_set>

#include "lower/cost.h"
#include "schedule/axes.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

void rewrite_positions(loop::LoopProgram& program, Kernel& kernel, const sym::Substitution& axes) {
  loop::ExprTable::Memo memo;
  auto value = [&](ExprId& id) { id = program.exprs.rewrite(id, axes, nullptr, memo); };
  auto position = [&](sym::Expr& e) { e = program.exprs.rewrite_index(e, axes, nullptr, memo); };
  for (Stage& stage : kernel.stages) {
    for (Statement& statement : stage.statements) {
      match(
          statement,
          [&](Accumulate& s) {
            value(s.value);
            position(s.position);
          },
          [&](Store& s) {
            value(s.value);
            position(s.position);
          },
          [&](Keep& s) { value(s.value); });
    }
  }
}

// May `a` followed by `b` be one axis? Every expression must depend on them only through a*extent(b) + b.
bool run_together(const std::vector<Access>& list, sym::Expr a, sym::Expr b) {
  const sym::Expr extent = *b.node()->extent;
  for (const Access& access : list) {
    const auto in_a = sym::linear_in(access.position, a);
    if (!in_a || sym::depends_on(in_a->coefficient, b)) return false;
    const auto in_b = sym::linear_in(in_a->rest, b);
    if (!in_b || !sym::known_eq(in_a->coefficient, in_b->coefficient * extent)) return false;
  }
  return true;
}

}  // namespace

std::vector<Access> accesses(const loop::ExprTable& exprs, const Kernel& kernel) {
  std::vector<Access> result;
  std::vector<ExprId> values;
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) {
      match(
          statement,
          [&](const Accumulate& s) {
            values.push_back(s.value);
            result.push_back({s.position, false});
          },
          [&](const Store& s) {
            values.push_back(s.value);
            result.push_back({s.position, true});
          },
          [&](const Keep& s) { values.push_back(s.value); });
    }
  }
  for (ExprId id : loop::reachable(exprs, values)) {
    if (const auto* load = std::get_if<loop::Load>(&exprs.node(id).op)) result.push_back({load->index[0], true, true});
    if (const auto* index = std::get_if<loop::Index>(&exprs.node(id).op)) result.push_back({index->value, false});
  }
  return result;
}

void merge_neighbours(loop::LoopProgram& program, Kernel& kernel, std::vector<sym::Expr>& axes) {
  for (size_t i = 0; i + 1 < axes.size();) {
    const sym::Expr a = axes[i];
    const sym::Expr b = axes[i + 1];
    if (!run_together(accesses(program.exprs, kernel), a, b)) {
      ++i;
      continue;
    }
    const sym::Expr merged = program.exprs.symbols().axis(*a.node()->extent * *b.node()->extent, "i");
    rewrite_positions(program, kernel, {{a, 0}, {b, merged}});
    axes[i] = merged;
    axes.erase(axes.begin() + static_cast<ptrdiff_t>(i) + 1);
    if (i > 0) --i;
  }
}

std::vector<ExprId> unconditional_loads(const loop::ExprTable& exprs, const Kernel& kernel) {
  std::vector<ExprId> pending;
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) {
      match(statement, [&](const auto& s) { pending.push_back(s.value); });
    }
  }
  std::vector<ExprId> loads;
  std::unordered_map<ExprId, bool> seen;
  while (!pending.empty()) {
    const ExprId id = pending.back();
    pending.pop_back();
    if (std::exchange(seen[id], true)) continue;
    if (std::holds_alternative<loop::Load>(exprs.node(id).op)) loads.push_back(id);
    if (const auto* masked = std::get_if<loop::Masked>(&exprs.node(id).op)) {
      pending.push_back(masked->condition);
      continue;
    }
    for (ExprId operand : exprs.operands(id)) pending.push_back(operand);
  }
  std::sort(loads.begin(), loads.end());
  return loads;
}

bool only_axes_and_sizes(sym::Expr e) {
  if (e.is_const()) return true;
  const std::vector<sym::Expr> symbols = sym::free_symbols(e);
  return std::none_of(symbols.begin(), symbols.end(), [](sym::Expr s) { return s.node()->symbol_kind == sym::SymbolKind::Value; });
}

namespace {

bool is_arg(const Accumulator& a) { return a.op == ReduceOp::ArgMin || a.op == ReduceOp::ArgMax; }

bool has_arg_reduction(const Kernel& kernel) { return std::any_of(kernel.accumulators.begin(), kernel.accumulators.end(), is_arg); }

// Lanes along the last inner axis see ascending positions; those along another one would not find the first of equals.
bool finds_first_along(const Kernel& kernel, sym::Expr inner) {
  if (inner != kernel.inner.back()) return false;
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) {
      const auto* s = std::get_if<Accumulate>(&statement);
      if (s == nullptr || !is_arg(kernel.accumulators[static_cast<size_t>(s->accumulator)])) continue;
      const auto linear = sym::linear_in(s->position, inner);
      if (!linear || !linear->coefficient.is_const(1)) return false;
    }
  }
  return true;
}

bool is_contiguous_along(sym::Expr position, sym::Expr axis) {
  const auto linear = sym::linear_in(position, axis);
  return linear && linear->coefficient.is_const(1);
}

// A load that lanes along `vector` would gather, and that is contiguous along another axis: that one. Both are as long as a tile.
std::optional<sym::Expr> tile_axis(const Kernel& kernel, sym::Expr position, sym::Expr vector) {
  constexpr int64_t kSmallest = 16;
  if (!kernel.inner.empty() || extent_hint(vector) < kSmallest) return std::nullopt;
  const auto jump = sym::linear_in(position, vector);
  if (!jump || !only_axes_and_sizes(position) || jump->coefficient.is_const(0) || jump->coefficient.is_const(1)) return std::nullopt;
  for (const sym::Expr axis : kernel.outer) {
    const auto step = sym::linear_in(position, axis);
    const bool is_next = axis != vector && step && (step->coefficient.is_const(1) || step->coefficient.is_const(-1));
    if (is_next && extent_hint(axis) >= kSmallest) return axis;
  }
  return std::nullopt;
}

void choose_tile(const loop::ExprTable& exprs, Kernel& kernel) {
  for (ExprId id : unconditional_loads(exprs, kernel)) {
    const auto axis = tile_axis(kernel, std::get<loop::Load>(exprs.node(id).op).index[0], kernel.outer.back());
    if (!axis || (kernel.tile && *kernel.tile != *axis)) continue;
    kernel.tile = *axis;
    kernel.tiled_loads.push_back(id);
  }
}

bool depends_on_others(const std::vector<sym::Expr>& axes, sym::Expr position, sym::Expr axis) {
  return std::any_of(axes.begin(), axes.end(), [&](sym::Expr other) { return other != axis && sym::depends_on(position, other); });
}

// How well lanes along `axis` read and write memory: contiguous accesses count for it, scattered ones against it. Of a kernel that moves
// elements alone, what tiles transpose counts for nothing, and so does a row that all others read again.
// `in_all`: where loads are that every iteration performs.
double score(const Kernel& kernel, const std::vector<Access>& list, const std::unordered_set<sym::Expr>& in_all, sym::Expr axis) {
  double total = 0;
  for (const Access& access : list) {
    if (!access.is_memory || !sym::depends_on(access.position, axis)) continue;
    if (kernel.inner.empty() && access.is_load) {
      if (in_all.contains(access.position) && tile_axis(kernel, access.position, axis)) continue;
      if (!depends_on_others(kernel.outer, access.position, axis)) continue;
    }
    total += is_contiguous_along(access.position, axis) ? 1.0 : -1.0;
  }
  return total;
}

// What a stage does in each step, each expression once; what stays the same along the inner axes is computed before.
constexpr int kLittleWork = 8;
int work_of_a_step(const loop::ExprTable& exprs, const Kernel& kernel, const Stage& stage) {
  std::vector<ExprId> values;
  for (const Statement& statement : stage.statements) values.push_back(match(statement, [](const auto& s) { return s.value; }));
  int work = 0;
  for (ExprId id : varying(exprs, values, kernel.inner)) {
    const loop::ExprOp& op = exprs.node(id).op;
    const auto* compute = std::get_if<loop::Compute>(&op);
    if (compute != nullptr && is_transcendental(compute->op)) return kLittleWork + 1;
    const bool is_slow = compute != nullptr && (compute->op == ScalarOp::Div || compute->op == ScalarOp::Sqrt);
    if (compute != nullptr || std::holds_alternative<loop::Load>(op) || std::holds_alternative<loop::Masked>(op)) work += is_slow ? 3 : 1;
  }
  return work;
}

// Reductions of little work an element wait for their accumulator: they get several.
void choose_turns(const loop::ExprTable& exprs, Kernel& kernel) {
  constexpr int kTurns = 4;
  constexpr int64_t kLongRow = 256;
  if (extent_hint(kernel.inner.back()) < kLongRow) return;
  for (Stage& stage : kernel.stages) {
    const auto accumulators = std::count_if(stage.statements.begin(), stage.statements.end(),
                                            [](const Statement& s) { return std::holds_alternative<Accumulate>(s); });
    if (stage.inner && accumulators > 0 && accumulators <= 2 && work_of_a_step(exprs, kernel, stage) <= kLittleWork) stage.turns = kTurns;
  }
}

// So many rows at once that accumulators are loaded and stored least often, and each row's place is in a register; rows that are left over
// are taken one by one. Few rows are taken all at once.
int rows_at_once(sym::Expr row_count) {
  constexpr int64_t kUsual = 8, kFew = 16, kMost = 10, kMany = 128;
  if (!row_count.is_const()) return sym::evaluate_hint(row_count) < 2 * kUsual ? 1 : kUsual;
  const int64_t count = row_count.value();
  if (count <= kFew) return static_cast<int>(std::max<int64_t>(count, 1));
  const auto passes = [&](int64_t rows) { return count / rows + count % rows; };
  int64_t best = kUsual;
  for (int64_t rows = kUsual + 1; rows <= kMost && count <= kMany; ++rows) best = passes(rows) < passes(best) ? rows : best;
  return static_cast<int>(best);
}

// Sums along rows that lie one after the other, as of columns, go through several rows at once.
void choose_rows(const loop::ExprTable& exprs, Kernel& kernel) {
  if (kernel.inner.empty()) return;
  const int at_once = rows_at_once(*kernel.inner.back().node()->extent);
  if (at_once == 1) return;
  const sym::Expr vector = kernel.outer.back();
  for (Stage& stage : kernel.stages) {
    if (!stage.inner) continue;
    bool is_simple = true;
    std::vector<ExprId> values;
    for (const Statement& statement : stage.statements) {
      const auto* accumulate = std::get_if<Accumulate>(&statement);
      is_simple = is_simple && accumulate != nullptr && !is_arg(kernel.accumulators[static_cast<size_t>(accumulate->accumulator)]);
      if (!is_simple) break;
      values.push_back(accumulate->value);
    }
    for (ExprId id : loop::reachable(exprs, values)) {
      const auto* load = std::get_if<loop::Load>(&exprs.node(id).op);
      is_simple = is_simple && !std::holds_alternative<loop::Index>(exprs.node(id).op) &&
                  !std::holds_alternative<loop::Stashed>(exprs.node(id).op) &&
                  (load == nullptr || (sym::depends_on(load->index[0], vector) && only_axes_and_sizes(load->index[0])));
    }
    if (is_simple && work_of_a_step(exprs, kernel, stage) <= kLittleWork) stage.rows = at_once;
  }
}

// Puts axes into the order in which what is stored lies in memory, the innermost last: where channels lie next to each other, they are
// not the axis before the image's rows.
void order_as_stored(Kernel& kernel) {
  std::optional<sym::Expr> position;
  size_t most = 0;
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) {
      const auto* store = std::get_if<Store>(&statement);
      if (store == nullptr) continue;
      const auto used = static_cast<size_t>(std::count_if(kernel.outer.begin(), kernel.outer.end(), [&](sym::Expr axis) {
        return sym::linear_in(store->position, axis) && sym::depends_on(store->position, axis);
      }));
      if (used > most) position = store->position, most = used;
    }
  }
  if (most != kernel.outer.size()) return;
  auto step = [&](sym::Expr axis) { return sym::evaluate_hint(sym::linear_in(*position, axis)->coefficient); };
  for (sym::Expr axis : kernel.outer) {
    if (!only_axes_and_sizes(sym::linear_in(*position, axis)->coefficient)) return;
  }
  std::stable_sort(kernel.outer.begin(), kernel.outer.end(),
                   [&](sym::Expr a, sym::Expr b) { return std::abs(step(a)) > std::abs(step(b)); });
}

}  // namespace

void choose_loops(loop::LoopProgram& program, Kernel& kernel) {
  order_as_stored(kernel);
  merge_neighbours(program, kernel, kernel.outer);
  if (!has_arg_reduction(kernel)) merge_neighbours(program, kernel, kernel.inner);
  if (kernel.outer.empty() && kernel.inner.empty()) return;

  const std::vector<Access> list = accesses(program.exprs, kernel);
  std::unordered_set<sym::Expr> in_all;
  for (ExprId id : unconditional_loads(program.exprs, kernel)) in_all.insert(std::get<loop::Load>(program.exprs.node(id).op).index[0]);
  auto best_of = [&](const std::vector<sym::Expr>& axes) {
    std::optional<std::pair<double, sym::Expr>> best;
    for (size_t i = axes.size(); i-- > 0;) {  // of equals, the innermost
      const double value = score(kernel, list, in_all, axes[i]) + (extent_hint(axes[i]) >= 8 ? 0.5 : -2.0);
      if (!best || value > best->first) best = {value, axes[i]};
    }
    return best;
  };
  const auto outer = best_of(kernel.outer);
  auto inner = best_of(kernel.inner);
  if (has_arg_reduction(kernel)) {
    for (const Accumulator& each : kernel.accumulators) {
      if (is_arg(each) && each.dtype == DType::Bool) return;  // masks do not order as bools do
    }
    if (inner && !finds_first_along(kernel, inner->second)) inner.reset();
    if (!inner && outer && outer->first < 0) return;
  }
  if (inner && (!outer || inner->first >= outer->first)) {
    kernel.vector = VectorAlong::Inner;
    move_to_back(kernel.inner, inner->second);
    if (!has_arg_reduction(kernel)) choose_turns(program.exprs, kernel);
  } else if (outer) {
    kernel.vector = VectorAlong::Outer;
    move_to_back(kernel.outer, outer->second);
    choose_tile(program.exprs, kernel);
    keep_row_values(program, kernel);
    choose_rows(program.exprs, kernel);
  }
  choose_blocks(kernel);
  choose_conditions(program.exprs, kernel);
}

}  // namespace toroid::schedule
