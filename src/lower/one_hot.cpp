#include "lower/one_hot.h"

#include <algorithm>

namespace toroid {
namespace {

using loop::ExprId;
using loop::ExprTable;

bool changes_along(const ExprTable& exprs, ExprId value, sym::Expr axis) {
  return std::ranges::any_of(loop::reachable(exprs, {value}), [&](ExprId id) {
    const loop::ExprOp& op = exprs.node(id).op;
    if (const auto* index = std::get_if<loop::Index>(&op)) return sym::depends_on(index->value, axis);
    const auto* load = std::get_if<loop::Load>(&op);
    return load != nullptr && std::ranges::any_of(load->index, [&](sym::Expr each) { return sym::depends_on(each, axis); });
  });
}

bool is_zero(const ExprTable& exprs, ExprId id) {
  if (const auto* number = exprs.literal_as<double>(id)) return *number == 0;
  const auto* integer = exprs.literal_as<sym::Expr>(id);
  return integer != nullptr && integer->is_const(0);
}

const loop::Compute* as_compute(const ExprTable& exprs, ExprId id, ScalarOp op) {
  const auto* compute = std::get_if<loop::Compute>(&exprs.node(id).op);
  return compute != nullptr && compute->op == op ? compute : nullptr;
}

// For which the condition holds at one value of the axis at most, that it holds at one. `place`: the axis.
std::optional<ExprId> holds_somewhere(ExprTable& exprs, ExprId condition, sym::Expr along) {
  if (const auto* both = as_compute(exprs, condition, ScalarOp::BitAnd)) {
    const std::vector<ExprId> sides = both->operands;
    for (const size_t i : {0, 1}) {
      if (changes_along(exprs, sides[1 - i], along)) continue;
      if (const auto found = holds_somewhere(exprs, sides[i], along)) return exprs.compute(ScalarOp::BitAnd, {*found, sides[1 - i]});
    }
    return std::nullopt;
  }
  const auto* equal = as_compute(exprs, condition, ScalarOp::Eq);
  if (equal == nullptr) return std::nullopt;
  const std::vector<ExprId> sides = equal->operands;
  for (const size_t i : {0, 1}) {
    const auto* index = std::get_if<loop::Index>(&exprs.node(sides[i]).op);
    const ExprId place = sides[1 - i];
    if (index == nullptr || index->value != along || exprs.dtype(place) != DType::I64 || changes_along(exprs, place, along)) continue;
    const ExprId none = exprs.literal(Scalar(sym::Expr(0)), DType::I64), all = exprs.index(*along.node()->extent);
    return exprs.compute(ScalarOp::BitAnd, {exprs.compute(ScalarOp::Ge, {place, none}), exprs.compute(ScalarOp::Lt, {place, all})});
  }
  return std::nullopt;
}

}  // namespace

std::optional<ExprId> sum_of_one_hot(ExprTable& exprs, ExprId value, sym::Expr along) {
  const auto* chosen = as_compute(exprs, value, ScalarOp::Where);
  if (chosen == nullptr || along.is_const()) return std::nullopt;
  const std::vector<ExprId> parts = chosen->operands;
  if (!is_zero(exprs, parts[2]) || changes_along(exprs, parts[1], along)) return std::nullopt;
  const auto is_there = holds_somewhere(exprs, parts[0], along);
  if (!is_there) return std::nullopt;
  return exprs.compute(ScalarOp::Where, {*is_there, parts[1], parts[2]});
}

}  // namespace toroid
