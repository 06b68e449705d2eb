#include "schedule/cuda/masked_stage.h"

#include <cmath>

#include "support/match.h"

namespace toroid::schedule {
namespace {

// Does a reduction go on as it was after such a value?
bool changes_nothing(ReduceOp op, const loop::ExprNode& value) {
  const auto* literal = std::get_if<loop::Literal>(&value.op);
  if (literal == nullptr) return false;
  return match(
      literal->value, [&](bool v) { return op == ReduceOp::Sum && !v; },
      [&](const sym::Expr& e) { return op == ReduceOp::Sum && e.is_const(0); },
      [&](double v) {
        if (op == ReduceOp::Sum) return v == 0;
        return is_floating(value.dtype) && std::isinf(v) && ((op == ReduceOp::Max && v < 0) || (op == ReduceOp::Min && v > 0));
      });
}

}  // namespace

std::optional<MaskedStage> masked_stage(const loop::ExprTable& exprs, const Kernel& kernel, const Stage& stage) {
  if (!stage.inner || stage.statements.size() != 1) return std::nullopt;
  const auto* reduction = std::get_if<Accumulate>(&stage.statements[0]);
  if (reduction == nullptr) return std::nullopt;
  const auto* masked = std::get_if<loop::Masked>(&exprs.node(reduction->value).op);
  const ReduceOp op = kernel.accumulators[static_cast<size_t>(reduction->accumulator)].op;
  if (masked == nullptr || !changes_nothing(op, exprs.node(masked->otherwise))) return std::nullopt;
  MaskedStage result{masked->condition, stage};
  std::get<Accumulate>(result.stage.statements[0]).value = masked->value;
  return result;
}

}  // namespace toroid::schedule
