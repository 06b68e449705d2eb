#include "codegen/cpp/narrow_products.h"

namespace toroid::codegen {
namespace {

using loop::ExprId;

// What is converted, and to what.
const loop::Convert* conversion(const loop::ExprTable& exprs, ExprId id, DType to) {
  return exprs.dtype(id) == to ? std::get_if<loop::Convert>(&exprs.node(id).op) : nullptr;
}

bool is_of_unsigned_bytes(const loop::ExprTable& exprs, ExprId id) {
  const loop::Convert* widened = conversion(exprs, id, DType::I32);
  return widened != nullptr && exprs.dtype(widened->operand) == DType::U8;
}

// An I32 whose lower half is the factor.
std::optional<ExprId> lower_half(const loop::ExprTable& exprs, ExprId id) {
  const loop::Convert* widened = conversion(exprs, id, DType::I32);
  if (widened == nullptr) return std::nullopt;
  const DType from = exprs.dtype(widened->operand);
  if (from == DType::I8 || from == DType::U8) return id;
  if (from != DType::I16) return std::nullopt;
  const loop::Convert* narrowed = conversion(exprs, widened->operand, DType::I16);
  return narrowed != nullptr && exprs.dtype(narrowed->operand) == DType::I32 ? narrowed->operand : id;
}

}  // namespace

std::optional<NarrowProduct> narrow_product(const loop::ExprTable& exprs, const loop::Compute& op) {
  if (op.op != ScalarOp::Mul || exprs.dtype(op.operands[0]) != DType::I32) return std::nullopt;
  for (const size_t a : {0, 1}) {
    if (!is_of_unsigned_bytes(exprs, op.operands[a])) continue;
    if (const auto b = lower_half(exprs, op.operands[1 - a])) return NarrowProduct{op.operands[a], *b};
  }
  return std::nullopt;
}

std::optional<NarrowSum> narrow_sum(const loop::ExprTable& exprs, const loop::Compute& op) {
  if (op.op != ScalarOp::Add) return std::nullopt;
  for (const size_t product : {1, 0}) {
    const auto* factor = std::get_if<loop::Compute>(&exprs.node(op.operands[product]).op);
    if (factor != nullptr && narrow_product(exprs, *factor)) return NarrowSum{op.operands[1 - product], *factor};
  }
  return std::nullopt;
}

}  // namespace toroid::codegen
