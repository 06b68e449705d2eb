#include "lower/attention/visible_scores.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "passes/attention/fold_masks.h"

namespace toroid {
namespace {

using loop::ExprId;

class Splitting {
 public:
  Splitting(loop::ExprTable& exprs, const std::vector<sym::Expr>& axes, ExprId value) : exprs_(exprs), axes_(axes) {
    for (ExprId id : loop::reachable(exprs, {value})) {  // operands first
      const std::vector<ExprId> operands = exprs.operands(id);
      const bool depends = std::holds_alternative<loop::Accumulated>(exprs.node(id).op) ||
                           std::any_of(operands.begin(), operands.end(), [&](ExprId each) { return of_product_.contains(each); });
      if (depends) of_product_.insert(id);
    }
  }

  // The expression where scores count; the condition for that is added to `visible`.
  ExprId split(ExprId id, std::optional<ExprId>& visible) {
    if (const auto known = split_.find(id); known != split_.end()) return known->second;
    const ExprId result = split_once(id, visible);
    split_.emplace(id, result);
    return result;
  }

 private:
  ExprId split_once(ExprId id, std::optional<ExprId>& visible) {
    const auto* found = std::get_if<loop::Compute>(&exprs_.node(id).op);
    if (found == nullptr) return id;
    const loop::Compute op = *found;
    if (op.op == ScalarOp::Where && !of_product_.contains(op.operands[0])) {
      for (const size_t i : {size_t{1}, size_t{2}}) {
        const ExprId condition = i == 1 ? exprs_.compute(ScalarOp::BitNot, {op.operands[0]}) : op.operands[0];
        if (!hides(op.operands[i], condition)) continue;
        add(visible, condition);
        return split(op.operands[3 - i], visible);
      }
    }
    if (op.op == ScalarOp::Add) {
      const ExprId left = split(op.operands[0], visible), right = split(op.operands[1], visible);
      if (is_zero(right)) return left;
      if (is_zero(left)) return right;
      return left == op.operands[0] && right == op.operands[1] ? id : exprs_.compute(ScalarOp::Add, {left, right});
    }
    return id;
  }

  bool is_zero(ExprId id) const {
    const auto* value = exprs_.literal_as<double>(id);
    return value != nullptr && *value == 0;
  }
  bool hides(ExprId id, ExprId condition) {
    const auto* value = exprs_.literal_as<double>(id);
    if (value == nullptr || *value > kHides) return false;
    if (std::isinf(*value)) return true;
    const sym::Expr query = axes_[2], key = axes_[3];
    if (query.is_const() || key.is_const() || !sym::known_le(*query.node()->extent, *key.node()->extent)) return false;
    const auto* truth = exprs_.literal_as<bool>(exprs_.substitute(condition, {{key, query}}));
    return truth != nullptr && *truth;
  }
  void add(std::optional<ExprId>& visible, ExprId condition) {
    visible = visible ? exprs_.compute(ScalarOp::BitAnd, {*visible, condition}) : condition;
  }

  loop::ExprTable& exprs_;
  const std::vector<sym::Expr>& axes_;
  std::unordered_set<ExprId> of_product_;  // what depends on it
  std::unordered_map<ExprId, ExprId> split_;
};

}  // namespace

loop::Scores visible_scores(loop::ExprTable& exprs, std::vector<sym::Expr> axes, ExprId value) {
  std::optional<ExprId> visible;
  const ExprId counting = Splitting(exprs, axes, value).split(value, visible);
  return loop::Scores::of(exprs, std::move(axes), counting, visible);
}

}  // namespace toroid
