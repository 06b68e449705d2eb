#include "schedule/cuda/masked_stage.h"

#include <cmath>

#include "support/match.h"

namespace toroid::schedule {
namespace {

// Does a reduction go on as it was after such a value? A position does but where nothing is larger than it: then the first value that is
// there counts, as PyTorch's pooling has it.
bool changes_nothing(ReduceOp op, const loop::ExprNode& value) {
  const auto* literal = std::get_if<loop::Literal>(&value.op);
  if (literal == nullptr) return false;
  return match(
      literal->value, [&](bool v) { return op == ReduceOp::Sum && !v; },
      [&](const sym::Expr& e) { return op == ReduceOp::Sum && e.is_const(0); },
      [&](double v) {
        if (op == ReduceOp::Sum) return v == 0;
        const bool is_largest = op == ReduceOp::Max || op == ReduceOp::ArgMax, is_least = op == ReduceOp::Min || op == ReduceOp::ArgMin;
        return is_floating(value.dtype) && std::isinf(v) && ((is_largest && v < 0) || (is_least && v > 0));
      });
}

}  // namespace

std::optional<MaskedStage> masked_stage(const loop::ExprTable& exprs, const Kernel& kernel, const Stage& stage) {
  if (!stage.inner || stage.statements.empty()) return std::nullopt;
  std::optional<MaskedStage> result;
  for (size_t i = 0; i < stage.statements.size(); ++i) {
    const auto* reduction = std::get_if<Accumulate>(&stage.statements[i]);
    if (reduction == nullptr) return std::nullopt;
    const auto* masked = std::get_if<loop::Masked>(&exprs.node(reduction->value).op);
    const ReduceOp op = kernel.accumulators[static_cast<size_t>(reduction->accumulator)].op;
    if (masked == nullptr || !changes_nothing(op, exprs.node(masked->otherwise))) return std::nullopt;
    if (!result) result = MaskedStage{masked->condition, stage};
    if (masked->condition != result->condition) return std::nullopt;
    std::get<Accumulate>(result->stage.statements[i]).value = masked->value;
  }
  return result;
}

}  // namespace toroid::schedule
