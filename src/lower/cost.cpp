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

namespace {

bool reads_along(const loop::Load& load, sym::Expr axis) {
  return std::any_of(load.index.begin(), load.index.end(), [&](sym::Expr index) { return sym::depends_on(index, axis); });
}

}  // namespace

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
      if (!axis.is_const() && !reads_along(*load, axis)) repeats *= sym::evaluate_hint(*axis.node()->extent);
    }
    const bool by_axes = std::all_of(load->index.begin(), load->index.end(), [&](sym::Expr index) {
      const std::vector<sym::Expr> symbols = index.is_const() ? std::vector<sym::Expr>{} : sym::free_symbols(index);
      return std::all_of(symbols.begin(), symbols.end(),
                         [&](sym::Expr symbol) { return std::find(axes.begin(), axes.end(), symbol) != axes.end(); });
    });
    if (!by_axes || (repeats > 1 && repeats < kRepeats)) return false;
    if (repeats > 1) continue;
    ++wide;
    if (size_bytes(program.buffer(load->buffer).dtype) > size_bytes(program.exprs.dtype(value))) return false;
  }
  return wide == 1;
}

bool is_gathered(const loop::ExprTable& exprs, loop::ExprId value) {
  const auto is_load = [&](loop::ExprId id) { return std::holds_alternative<loop::Load>(exprs.node(id).op); };
  const auto is_read = [&](sym::Expr symbol) {
    const loop::ValueSymbol* named = exprs.value_symbol(symbol);
    return named != nullptr && std::ranges::any_of(loop::reachable(exprs, {named->index}), is_load);
  };
  return std::ranges::any_of(loop::reachable(exprs, {value}), [&](loop::ExprId id) {
    const auto* load = std::get_if<loop::Load>(&exprs.node(id).op);
    return load != nullptr && std::ranges::any_of(load->index, [&](sym::Expr index) {
             return !index.is_const() && std::ranges::any_of(sym::free_symbols(index), is_read);
           });
  });
}

bool is_function_of_narrower(const loop::LoopProgram& program, std::span<const sym::Expr> axes, loop::ExprId value) {
  constexpr int kMostArithmetic = 12, kMostTranscendental = 1;
  const ExprCost cost = cost_of(program.exprs, value);
  if (cost.loads != 1 || cost.arithmetic > kMostArithmetic || cost.transcendental > kMostTranscendental) return false;
  for (loop::ExprId each : loop::reachable(program.exprs, {value})) {
    const loop::ExprOp& op = program.exprs.node(each).op;
    if (std::holds_alternative<loop::Masked>(op) || std::holds_alternative<loop::Index>(op)) return false;
    const auto* load = std::get_if<loop::Load>(&op);
    if (load == nullptr) continue;
    if (2 * size_bytes(program.buffer(load->buffer).dtype) > size_bytes(program.exprs.dtype(value))) return false;
    for (sym::Expr axis : axes) {
      if (!axis.is_const() && !reads_along(*load, axis)) return false;
    }
  }
  return true;
}

}  // namespace toroid
