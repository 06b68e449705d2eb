#include "lower/unread_indices.h"

#include <algorithm>
#include <map>

namespace toroid {
namespace {

using loop::ExprId;
using loop::ExprTable;

// Of a masked value one side alone is computed.
bool always_reads(const ExprTable& exprs, ExprId value, sym::Expr index, std::map<ExprId, bool>& known) {
  if (const auto found = known.find(value); found != known.end()) return found->second;
  const auto reads = [&](ExprId id) { return always_reads(exprs, id, index, known); };
  const auto mentions = [&](sym::Expr e) { return sym::depends_on(e, index); };
  const loop::ExprOp& op = exprs.node(value).op;
  bool result = false;
  if (const auto* masked = std::get_if<loop::Masked>(&op)) {
    result = reads(masked->condition) || (reads(masked->value) && reads(masked->otherwise));
  } else if (const auto* of = std::get_if<loop::Index>(&op); of != nullptr && mentions(of->value)) {
    result = true;
  } else if (const auto* load = std::get_if<loop::Load>(&op); load != nullptr && std::ranges::any_of(load->index, mentions)) {
    result = true;
  } else {
    result = std::ranges::any_of(exprs.operands(value), reads);
  }
  known[value] = result;
  return result;
}

}  // namespace

ExprId with_check(ExprTable& exprs, ExprId value, sym::Expr index) {
  if (exprs.value_symbol(index) == nullptr) return value;
  const DType dtype = exprs.dtype(value);
  const auto number = [&](int64_t n, DType as) { return exprs.literal(Scalar(sym::Expr(n)), as); };
  const ExprId position = exprs.add(loop::BitcastTo{exprs.index(index), DType::I64, DType::I64}, DType::I64);
  const ExprId holds = exprs.compute(ScalarOp::Ge, {position, number(0, DType::I64)});
  const ExprId zero = number(0, dtype);
  return exprs.compute(ScalarOp::Where, {holds, value, value == zero ? number(1, dtype) : zero});
}

ExprId with_check_if_unread(ExprTable& exprs, ExprId value, sym::Expr index) {
  if (exprs.value_symbol(index) == nullptr) return value;  // known to be in bounds: an axis, or a number
  std::map<ExprId, bool> known;
  return always_reads(exprs, value, index, known) ? value : with_check(exprs, value, index);
}

}  // namespace toroid
