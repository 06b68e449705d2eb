#include "runtime/plan_key.h"

namespace toroid {
namespace {

thread_local std::vector<int64_t> numbers_of_key;

}  // namespace

PlanKey::PlanKey(Kind kind) : numbers_(numbers_of_key) { numbers_.assign(1, static_cast<int64_t>(kind)); }

void PlanKey::add(const KernelCall& call) {
  auto add_operand = [&](const ToroidOperand& operand) {
    add(operand.rank);
    add(operand.dtype);
    add(operand.is_constant ? reinterpret_cast<intptr_t>(operand.data) : 0);
    numbers_.insert(numbers_.end(), operand.sizes, operand.sizes + operand.rank);
    numbers_.insert(numbers_.end(), operand.strides, operand.strides + operand.rank);
  };
  add(call.pool.threads());
  add(static_cast<int64_t>(call.inputs.size()));
  for (const ToroidOperand& input : call.inputs) add_operand(input);
  for (const ToroidOperand& output : call.outputs) add_operand(output);
  add(static_cast<int64_t>(call.integers.size()));
  numbers_.insert(numbers_.end(), call.integers.begin(), call.integers.end());
}

}  // namespace toroid
