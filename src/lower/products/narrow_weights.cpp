#include "lower/products/narrow_weights.h"

#include <limits>

namespace toroid {
namespace {

using loop::ExprId;

ExprId as_half(loop::ExprTable& exprs, ExprId bits) { return exprs.add(loop::BitcastTo{bits, DType::I16, DType::F16}, DType::F32); }

// As formula::float8_values is lowered; `as_halves`: as formula::float8_halves, widened.
ExprId float8_value(loop::ExprTable& exprs, ExprId bits, DType dtype, bool as_halves) {
  const auto number = [&](int64_t value) { return exprs.literal(Scalar(sym::Expr(value)), DType::I16); };
  const auto compute = [&](ScalarOp op, ExprId a, ExprId b) { return exprs.compute(op, {a, b}); };
  const ExprId x = exprs.convert(bits, DType::I16);
  if (dtype == DType::F8E5M2) return as_half(exprs, compute(ScalarOp::ShiftLeft, x, number(8)));
  const ExprId magnitude = compute(ScalarOp::BitAnd, x, number(0x7f)), sign = compute(ScalarOp::BitAnd, x, number(0x80));
  const ExprId half =
      compute(ScalarOp::BitOr, compute(ScalarOp::ShiftLeft, magnitude, number(7)), compute(ScalarOp::ShiftLeft, sign, number(8)));
  const ExprId is_nan = compute(ScalarOp::Eq, magnitude, number(0x7f));
  if (as_halves) return as_half(exprs, exprs.compute(ScalarOp::Where, {is_nan, number(0x7e00), half}));
  const ExprId value = compute(ScalarOp::Mul, as_half(exprs, half), exprs.literal(256.0, DType::F32));
  return exprs.compute(ScalarOp::Where, {is_nan, exprs.literal(std::numeric_limits<double>::quiet_NaN(), DType::F32), value});
}

// The one load in the expression; none where there are several.
std::optional<ExprId> only_load(const loop::ExprTable& exprs, ExprId id) {
  std::optional<ExprId> found;
  for (ExprId each : loop::reachable(exprs, {id})) {
    if (!std::holds_alternative<loop::Load>(exprs.node(each).op)) continue;
    if (found) return std::nullopt;
    found = each;
  }
  return found;
}

}  // namespace

std::optional<NarrowElement> narrow_element(loop::ExprTable& exprs, ExprId element, sym::Expr depth) {
  const auto depends = [&](ExprId id) { return !depth.is_const() && exprs.substitute(id, {{depth, 0}}) != id; };
  const loop::ExprNode& node = exprs.node(element);
  if (const auto* compute = std::get_if<loop::Compute>(&node.op);
      compute != nullptr && compute->op == ScalarOp::Mul && node.dtype == DType::F32) {
    for (const size_t i : {0, 1}) {
      const ExprId numbers = compute->operands[i], scale = compute->operands[1 - i];
      if (depends(scale)) continue;
      std::optional<NarrowElement> found = narrow_element(exprs, numbers, depth);
      if (!found) continue;
      found->scale = found->scale ? exprs.compute(ScalarOp::Mul, {*found->scale, scale}) : scale;
      return found;
    }
  }
  const std::optional<ExprId> load = only_load(exprs, element);
  if (!load) return std::nullopt;
  const DType dtype = exprs.dtype(*load);
  if (dtype == DType::I8 && exprs.convert(*load, DType::F32) == element) return NarrowElement{*load, DType::I8, {}};
  if (dtype != DType::U8) return std::nullopt;
  for (const DType float8 : {DType::F8E4M3FN, DType::F8E5M2}) {
    if (float8_value(exprs, *load, float8, false) == element) return NarrowElement{*load, float8, {}};
  }
  if (float8_value(exprs, *load, DType::F8E4M3FN, true) != element) return std::nullopt;
  return NarrowElement{*load, DType::F8E4M3FN, exprs.literal(1.0 / 256, DType::F32)};
}

}  // namespace toroid
