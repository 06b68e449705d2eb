// Leaves out stages that only sum where a condition on the row holds, for the rows where it does not:
//
//   for j in row    acc2 = sum where(acc0 > acc1, x[row, j], 0)        =>    if (acc0 > acc1)    for j in row    acc2 = sum …
//
// As the correction of a mean, which few rows need.
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"

namespace toroid::schedule {
namespace {

bool is_zero(const loop::ExprTable& exprs, ExprId id) {
  const auto* number = exprs.literal_as<double>(id);
  return number != nullptr && *number == 0;
}

// The condition without which the statement adds nothing.
std::optional<ExprId> condition_of(const loop::ExprTable& exprs, const Kernel& kernel, const Statement& statement) {
  const auto* s = std::get_if<Accumulate>(&statement);
  if (s == nullptr || !is_float_sum(kernel.accumulators[static_cast<size_t>(s->accumulator)])) return std::nullopt;
  const auto* where = std::get_if<loop::Compute>(&exprs.node(s->value).op);
  if (where == nullptr || where->op != ScalarOp::Where || !is_zero(exprs, where->operands[2])) return std::nullopt;
  const ExprId condition = where->operands[0];
  if (varying(exprs, {condition}, kernel.inner).contains(condition)) return std::nullopt;
  return condition;
}

}  // namespace

void choose_conditions(const loop::ExprTable& exprs, Kernel& kernel) {
  if (kernel.vector == VectorAlong::None && !kernel.gpu) return;
  for (Stage& stage : kernel.stages) {
    if (!stage.inner || stage.statements.empty()) continue;
    std::optional<ExprId> common = condition_of(exprs, kernel, stage.statements[0]);
    for (const Statement& statement : stage.statements) {
      if (condition_of(exprs, kernel, statement) != common) common.reset();
    }
    stage.condition = common;
  }
}

}  // namespace toroid::schedule
