// Turns a group of computations into the stages of one kernel.
//
// Maps vanish into the expressions that read them; reductions become accumulators. A statement runs in the first stage in which
// all accumulators it needs are complete. Expressions that several stages need, if they are more than an element and a few operations, are
// kept in a stash; forms.h says whether that is worth it.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "lower/cost.h"
#include "schedule/axes.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using loop::ExprTable;

class KernelBuilder {
 public:
  KernelBuilder(loop::LoopProgram& program, const Group& group, const std::vector<bool>& needed)
      : program_(program), exprs_(program.exprs), group_(group), needed_(needed) {}

  Kernel run() {
    kernel_.outer = group_.outer;
    kernel_.inner = group_.inner;
    for (const Member& member : group_.members) add(member);
    std::vector<Stage> stages;
    for (Level& level : levels_) {
      if (!level.row.empty()) stages.push_back({false, std::move(level.row)});
      if (!level.full.empty()) stages.push_back({!group_.inner.empty(), std::move(level.full)});
    }
    kernel_.stages = std::move(stages);
    keep_shared_values();
    name();
    note_reads();
    return std::move(kernel_);
  }

 private:
  struct Level {
    std::vector<Statement> row;   // once a row, before `full`
    std::vector<Statement> full;  // over the inner axes
  };

  Level& level(size_t index) {
    if (levels_.size() <= index) levels_.resize(index + 1);
    return levels_[index];
  }

  // The expression in the group's axes, with what the group computes put in place of loads.
  ExprId inlined(ExprId id, const sym::Substitution& axes) {
    const ExprId moved = exprs_.substitute(id, axes);
    const ExprTable::Leaf leaf = [&](ExprId each) -> std::optional<ExprId> {
      const auto* found = std::get_if<loop::Load>(&exprs_.node(each).op);
      if (found == nullptr) return std::nullopt;
      const loop::Load load = *found;
      if (const auto value = values_.find(load.buffer); value != values_.end()) return value->second;
      const DType dtype = exprs_.dtype(each);
      const sym::Expr position = exprs_.rewrite_index(position_of(program_.buffer(load.buffer), load.index), {}, leaf_, memo_);
      return exprs_.add(loop::Load{load.buffer, {position}}, dtype);
    };
    leaf_ = leaf;
    return exprs_.rewrite(moved, {}, leaf_, memo_);
  }

  size_t level_of(ExprId id) {
    size_t result = 0;
    for (ExprId each : loop::reachable(exprs_, {id})) {
      if (const auto* acc = std::get_if<loop::Accumulated>(&exprs_.node(each).op)) {
        result = std::max(result, accumulator_level_[static_cast<size_t>(acc->id)] + 1);
      }
    }
    return result;
  }

  void add(const Member& member) {
    const loop::Computation& computation = program_.computations[member.computation];
    provenance_.insert(provenance_.end(), computation.provenance.begin(), computation.provenance.end());
    names_.push_back(computation.name);
    const loop::BufferId out = computation.outputs[0];
    const loop::Buffer& buffer = program_.buffer(out);
    if (const auto* map = std::get_if<loop::Map>(&computation.work)) {
      const std::vector<sym::Expr> axes = map->axes;
      const ExprId value = inlined(map->value, member.axes);
      values_[out] = value;
      if (needed_[static_cast<size_t>(out)]) store(buffer, out, axes, member.axes, value, level_of(value));
      return;
    }
    const loop::Reduction reduction = std::get<loop::Reduction>(computation.work);
    const ExprId value = inlined(reduction.value, member.axes);
    const size_t at = level_of(value);
    const AccumulatorId id{static_cast<uint32_t>(kernel_.accumulators.size())};
    const ProvenanceId origin = computation.provenance.empty() ? ProvenanceId{} : computation.provenance.back();
    kernel_.accumulators.push_back({reduction.op, exprs_.dtype(value), origin, reduction.care});
    accumulator_level_.push_back(at);
    sym::Expr position = 0;
    for (sym::Expr axis : reduction.reduce_axes) {
      position = position * *axis.node()->extent + sym::substitute(axis, member.axes);
    }
    level(at).full.push_back(Accumulate{id, value, position});
    const ExprId result = exprs_.add(loop::Accumulated{id}, compute_dtype(buffer.dtype));
    values_[out] = result;
    if (needed_[static_cast<size_t>(out)]) store(buffer, out, reduction.axes, member.axes, result, at + 1);
  }

  void store(const loop::Buffer& buffer, loop::BufferId out, const std::vector<sym::Expr>& axes, const sym::Substitution& moved,
             ExprId value, size_t at) {
    const sym::Expr position = sym::substitute(position_of(buffer, axes), moved);
    bool uses_inner = false;
    for (sym::Expr axis : axes) {
      const sym::Expr image = sym::substitute(axis, moved);
      for (sym::Expr inner : group_.inner) uses_inner = uses_inner || sym::depends_on(image, inner);
    }
    // A value over the whole domain is stored inside the loop, one a row outside of it.
    std::vector<Statement>& list = uses_inner || group_.inner.empty() ? level(at).full : level(at).row;
    list.push_back(Store{out, position, value});
    kernel_.writes.push_back(out);
  }

  bool varies_inside(ExprId id) {
    if (const auto found = varies_.find(id); found != varies_.end()) return found->second;
    bool result = false;
    auto test = [&](sym::Expr e) {
      for (sym::Expr inner : group_.inner) result = result || sym::depends_on(e, inner);
    };
    const loop::ExprNode& node = exprs_.node(id);
    if (const auto* load = std::get_if<loop::Load>(&node.op)) test(load->index[0]);
    if (const auto* index = std::get_if<loop::Index>(&node.op)) test(index->value);
    for (ExprId operand : exprs_.operands(id)) result = result || varies_inside(operand);
    varies_[id] = result;
    return result;
  }

  static ExprId* value_of(Statement& statement) {
    return match(
        statement, [](Accumulate& s) { return &s.value; }, [](Store& s) { return &s.value; }, [](Keep& s) { return &s.value; });
  }

  // What is computed for every element: behind a mask there may be nothing to compute it of.
  std::vector<ExprId> operands_everywhere(ExprId id) const {
    if (const auto* masked = std::get_if<loop::Masked>(&exprs_.node(id).op)) return {masked->condition};
    return exprs_.operands(id);
  }
  void note_stage(ExprId id, size_t stage, std::unordered_map<ExprId, size_t>& first_stage) const {
    if (!first_stage.try_emplace(id, stage).second) return;
    for (ExprId operand : operands_everywhere(id)) note_stage(operand, stage, first_stage);
  }

  // Largest expressions below `id`, but for the cheapest, that an earlier stage computes too. `seen`: those of this stage, each once; a
  // binary search is a chain of steps that use the step before several times.
  void find_shared(ExprId id, const std::unordered_map<ExprId, size_t>& first_stage, size_t stage, std::unordered_set<ExprId>& seen,
                   std::vector<ExprId>& shared) {
    if (!seen.insert(id).second) return;
    const auto found = first_stage.find(id);
    const bool earlier = found != first_stage.end() && found->second < stage;
    if (earlier && varies_inside(id)) {
      if (is_cheap_inside(id)) return;  // everything below is cheaper still
      if (std::find(shared.begin(), shared.end(), id) == shared.end()) shared.push_back(id);
      return;
    }
    for (ExprId operand : operands_everywhere(id)) find_shared(operand, first_stage, stage, seen, shared);
  }

  // Is it at most an element and two operations, beside what stays the same along the inner axes?
  bool is_cheap_inside(ExprId id) {
    int loads = 0, operations = 0;
    for (ExprId each : loop::reachable(exprs_, {id})) {
      if (!varies_inside(each)) continue;
      const loop::ExprOp& op = exprs_.node(each).op;
      const auto* compute = std::get_if<loop::Compute>(&op);
      if (compute != nullptr && is_transcendental(compute->op)) return false;
      const bool is_slow = compute != nullptr && (compute->op == ScalarOp::Div || compute->op == ScalarOp::Sqrt);
      if (compute != nullptr || std::holds_alternative<loop::Masked>(op)) operations += is_slow ? 3 : 1;
      loads += std::holds_alternative<loop::Load>(op) ? 1 : 0;
    }
    return operations <= 2 && loads <= 1;
  }

  void keep_shared_values() {
    if (group_.inner.empty()) return;
    if (sym::evaluate_hint(product_of_extents(group_.inner)) > kMaxStashElements) return;
    std::unordered_map<ExprId, size_t> first_stage;
    std::vector<ExprId> shared;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      if (!kernel_.stages[s].inner) continue;
      std::vector<ExprId> values;
      for (Statement& statement : kernel_.stages[s].statements) values.push_back(*value_of(statement));
      std::unordered_set<ExprId> seen;
      for (ExprId value : values) find_shared(value, first_stage, s, seen, shared);
      for (ExprId value : values) note_stage(value, s, first_stage);
    }
    if (shared.empty()) return;
    ExprTable::Memo memo;
    std::unordered_map<ExprId, ExprId> stashed;
    for (ExprId id : shared) {
      const StashId stash{static_cast<uint32_t>(kernel_.stashes.size())};
      kernel_.stashes.push_back(exprs_.dtype(id));
      exprs_.set_origin(exprs_.node(id).origin);
      stashed[id] = exprs_.add(loop::Stashed{stash}, exprs_.dtype(id));
    }
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      Stage& stage = kernel_.stages[s];
      if (!stage.inner) continue;
      ExprTable::Memo stage_memo;
      const ExprTable::Leaf leaf = [&](ExprId each) -> std::optional<ExprId> {
        const auto found = stashed.find(each);
        if (found != stashed.end() && first_stage.at(each) < s) return found->second;
        return std::nullopt;
      };
      std::vector<Statement> kept;
      for (size_t i = 0; i < shared.size(); ++i) {
        if (first_stage.at(shared[i]) != s) continue;
        const ExprId value = exprs_.rewrite(shared[i], {}, leaf, stage_memo);
        kept.push_back(Keep{std::get<loop::Stashed>(exprs_.node(stashed.at(shared[i])).op).id, value});
      }
      for (Statement& statement : stage.statements) {
        ExprId* value = value_of(statement);
        *value = exprs_.rewrite(*value, {}, leaf, stage_memo);
      }
      stage.statements.insert(stage.statements.begin(), kept.begin(), kept.end());
    }
  }

  void name() {
    // From the source operators, each once, in order: "add_layer_norm_gelu".
    std::vector<std::string> parts;
    for (const std::string& name : names_) {
      size_t begin = 0;
      while (begin <= name.size()) {
        // Operator names contain underscores themselves; computation names are joined by the same sign, so compare whole names.
        begin = name.size() + 1;
        if (std::find(parts.begin(), parts.end(), name) == parts.end()) parts.push_back(name);
      }
    }
    for (const std::string& part : parts) {
      if (kernel_.name.find(part) != std::string::npos) continue;
      if (kernel_.name.size() + part.size() > 60) break;
      kernel_.name += (kernel_.name.empty() ? "" : "_") + part;
    }
    add_provenance(kernel_.provenance, provenance_);
  }

  void note_reads() {
    std::vector<ExprId> values;
    for (Stage& stage : kernel_.stages) {
      for (Statement& statement : stage.statements) values.push_back(*value_of(statement));
    }
    for (ExprId id : loop::reachable(exprs_, values)) {
      if (const auto* load = std::get_if<loop::Load>(&exprs_.node(id).op)) {
        if (std::find(kernel_.reads.begin(), kernel_.reads.end(), load->buffer) == kernel_.reads.end()) {
          kernel_.reads.push_back(load->buffer);
        }
      }
    }
  }

  // A row of this many values still sits in the second-level cache.
  static constexpr int64_t kMaxStashElements = 256 * 1024;

  loop::LoopProgram& program_;
  ExprTable& exprs_;
  const Group& group_;
  const std::vector<bool>& needed_;
  Kernel kernel_;
  std::vector<Level> levels_;
  std::vector<size_t> accumulator_level_;
  std::vector<std::string> names_;
  std::vector<ProvenanceId> provenance_;               // of all members
  std::unordered_map<loop::BufferId, ExprId> values_;  // what the group computed so far
  std::unordered_map<ExprId, bool> varies_;
  ExprTable::Leaf leaf_;
  ExprTable::Memo memo_;
};

}  // namespace

void add_provenance(std::vector<ProvenanceId>& list, const std::vector<ProvenanceId>& more) {
  list.insert(list.end(), more.begin(), more.end());
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

Kernel build_kernel(loop::LoopProgram& program, const Group& group, const std::vector<bool>& needed) {
  return KernelBuilder(program, group, needed).run();
}

}  // namespace toroid::schedule
