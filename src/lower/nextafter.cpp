#include "lower/nextafter.h"

#include <limits>

namespace toroid {

using loop::ExprId;

ExprId narrow_nextafter(loop::ExprTable& exprs, ExprId a, ExprId b, DType dtype) {
  auto bits_of = [&](ExprId x) { return exprs.add(loop::BitcastTo{x, dtype, DType::I16}, DType::I16); };
  auto float_of = [&](ExprId bits) { return exprs.add(loop::BitcastTo{bits, DType::I16, dtype}, DType::F32); };
  auto integer = [&](int64_t value) { return exprs.literal(sym::Expr(value), DType::I16); };
  auto number = [&](double value) { return exprs.literal(value, DType::F32); };
  auto where = [&](ExprId condition, ExprId x, ExprId y) { return exprs.compute(ScalarOp::Where, {condition, x, y}); };
  auto greater = [&](ExprId x, ExprId y) { return exprs.compute(ScalarOp::Gt, {x, y}); };
  auto equal = [&](ExprId x, ExprId y) { return exprs.compute(ScalarOp::Eq, {x, y}); };

  // The bits of a float, read as an integer, grow away from zero.
  const ExprId bits = bits_of(a);
  a = float_of(bits);
  b = float_of(bits_of(b));
  const ExprId zero = number(0);
  const ExprId away = equal(greater(b, a), greater(a, zero));
  const ExprId stepped = exprs.compute(ScalarOp::Add, {bits, where(away, integer(1), integer(-1))});
  const ExprId from_zero = where(greater(b, zero), integer(1), integer(-0x7fff));  // the least number of b's sign
  const ExprId neighbour = float_of(where(equal(a, zero), from_zero, stepped));
  const ExprId is_nan = exprs.compute(ScalarOp::BitOr, {exprs.compute(ScalarOp::IsNan, {a}), exprs.compute(ScalarOp::IsNan, {b})});
  return where(is_nan, number(std::numeric_limits<double>::quiet_NaN()), where(equal(a, b), b, neighbour));
}

}  // namespace toroid
