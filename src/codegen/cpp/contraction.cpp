#include "codegen/cpp/contraction.h"

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen {

using loop::ExprId;

std::optional<Contraction::Product> Contraction::product(ExprId id) const {
  if (!is_said_ || !is_floating(exprs_->dtype(id)) || unfused_.contains(id)) return std::nullopt;
  const auto* op = std::get_if<loop::Compute>(&exprs_->node(id).op);
  if (op == nullptr || op->op != ScalarOp::Mul) return std::nullopt;
  return Product{op->operands[0], op->operands[1]};
}

std::optional<Contraction::Sum> Contraction::sum(const loop::Compute& op) const {
  if (op.op != ScalarOp::Add && op.op != ScalarOp::Sub) return std::nullopt;
  const bool is_difference = op.op == ScalarOp::Sub;
  if (const auto first = product(op.operands[0])) return Sum{*first, op.operands[1], false, is_difference};
  if (const auto second = product(op.operands[1])) return Sum{*second, op.operands[0], is_difference, false};
  return std::nullopt;
}

bool Contraction::is_rounded(ExprId id) const {
  if (!(is_said_ || unfused_.contains(id)) || !is_floating(exprs_->dtype(id))) return false;
  switch (std::get<loop::Compute>(exprs_->node(id).op).op) {  // none of these ends with a multiplication
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Neg:
    case ScalarOp::Abs:
    case ScalarOp::Min:
    case ScalarOp::Max:
    case ScalarOp::Where:
    case ScalarOp::Copysign:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc: return false;
    default: return true;
  }
}

OperandText fused_text(DType dtype, const OperandText& a, const OperandText& b, const OperandText& addend, bool is_product_negative,
                       bool is_addend_negative) {
  const bool lanes = a.lanes || b.lanes || addend.lanes;
  auto text = [&](const OperandText& operand, bool is_negative) {
    const std::string value = is_negative ? "-" + wrapped(operand) : operand.text;
    return lanes && !operand.lanes ? fmt::format("splat<{}, W>({})", register_type(dtype), value) : value;
  };
  const std::string function = lanes ? "op_fma_v" : "op_fma";
  return {fmt::format("{}({}, {}, {})", function, text(a, is_product_negative), text(b, false), text(addend, is_addend_negative)), lanes};
}

}  // namespace toroid::codegen
