#include "runtime/choice_families.h"

namespace toroid {

std::optional<std::string> unlike_f32(const Problem& problem, size_t least, size_t most, size_t rank) {
  if (problem.inputs.size() < least || problem.inputs.size() > most || problem.outputs.size() != 1) {
    return fmt::format("{} inputs and {} outputs, not {} to {} and 1", problem.inputs.size(), problem.outputs.size(), least, most);
  }
  auto fault_of = [&](const OperandMeta& operand, const std::string& name) -> std::optional<std::string> {
    if (operand.dtype == DType::F32 && operand.sizes.size() >= rank) return std::nullopt;
    return fmt::format("{} is {}, not f32 of rank {} or more", name, to_string(operand), rank);
  };
  for (size_t i = 0; i < least; ++i) {
    if (auto fault = fault_of(problem.inputs[i], fmt::format("input {}", i))) return fault;
  }
  if (!problem.outputs[0].is_dense()) return "the output is not dense";
  return fault_of(problem.outputs[0], "the output");
}

}  // namespace toroid
