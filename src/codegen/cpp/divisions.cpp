#include "codegen/cpp/divisions.h"

#include "support/match.h"

namespace toroid::codegen {

bool divides_integers(const loop::ExprTable& exprs, const loop::Compute& op) {
  using enum ScalarOp;
  if (op.op != FloorDiv && op.op != TruncDiv && op.op != Mod && op.op != Fmod) return false;
  const loop::ExprNode& divisor = exprs.node(op.operands[1]);
  if (is_floating(divisor.dtype)) return false;
  const auto* literal = std::get_if<loop::Literal>(&divisor.op);
  return literal == nullptr ||
         match(
             literal->value, [](bool v) { return !v; }, [](const sym::Expr& e) { return e.is_const(0); }, [](double v) { return v == 0; });
}

}  // namespace toroid::codegen
