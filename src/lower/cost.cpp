#include "lower/cost.h"

namespace toroid {

bool is_transcendental(ScalarOp op) {
  switch (op) {
    case ScalarOp::Neg:
    case ScalarOp::Abs:
    case ScalarOp::Sign:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round:
    case ScalarOp::BitNot:
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
    case ScalarOp::SignBit:
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Mul:
    case ScalarOp::Min:
    case ScalarOp::Max:
    case ScalarOp::Copysign:
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor:
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRight:
    case ScalarOp::Eq:
    case ScalarOp::Ne:
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Gt:
    case ScalarOp::Ge:
    case ScalarOp::Where:
    case ScalarOp::Sqrt:
    case ScalarOp::Rsqrt:
    case ScalarOp::Reciprocal:
    case ScalarOp::Div: return false;
    default: return true;
  }
}

ExprCost cost_of(const loop::ExprTable& exprs, loop::ExprId id) {
  ExprCost cost;
  for (loop::ExprId each : loop::reachable(exprs, {id})) {
    ++cost.nodes;
    const loop::ExprNode& node = exprs.node(each);
    if (const auto* load = std::get_if<loop::Load>(&node.op)) {
      for (sym::Expr index : load->index) {
        if (!index.is_const()) {
          ++cost.loads;
          break;
        }
      }
    } else if (const auto* compute = std::get_if<loop::Compute>(&node.op)) {
      if (is_transcendental(compute->op)) {
        ++cost.transcendental;
      } else {
        cost.arithmetic += compute->op == ScalarOp::Div || compute->op == ScalarOp::Sqrt ? 3 : 1;
      }
    } else if (std::holds_alternative<loop::Masked>(node.op)) {
      ++cost.arithmetic;
    }
  }
  return cost;
}

}  // namespace toroid
