#include "lower/cost.h"

#include <algorithm>

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

bool reads_as_little(const loop::LoopProgram& program, std::span<const sym::Expr> axes, loop::ExprId value) {
  constexpr int64_t kRepeats = 16;  // of an element at least, so that reading it counts for nothing
  const ExprCost cost = cost_of(program.exprs, value);
  if (cost.transcendental > 0 || cost.arithmetic > 4) return false;
  int wide = 0;
  for (loop::ExprId each : loop::reachable(program.exprs, {value})) {
    const auto* load = std::get_if<loop::Load>(&program.exprs.node(each).op);
    if (load == nullptr) continue;
    int64_t repeats = 1;
    for (sym::Expr axis : axes) {
      const bool reads_along = std::find(load->index.begin(), load->index.end(), axis) != load->index.end();
      if (!axis.is_const() && !reads_along) repeats *= sym::evaluate_hint(*axis.node()->extent);
    }
    const bool by_axes = std::all_of(load->index.begin(), load->index.end(), [&](sym::Expr index) {
      return index.is_const() || std::find(axes.begin(), axes.end(), index) != axes.end();
    });
    if (!by_axes || (repeats > 1 && repeats < kRepeats)) return false;
    if (repeats > 1) continue;
    ++wide;
    if (size_bytes(program.buffer(load->buffer).dtype) > size_bytes(program.exprs.dtype(value))) return false;
  }
  return wide == 1;
}

}  // namespace toroid
