#include "tune/question.h"

namespace toroid::tune {
namespace {

double needed_bytes(const Problem& problem) {
  double needed = 0;
  for (const OperandMeta& meta : problem.inputs) needed += static_cast<double>(meta.extent_bytes());
  for (const OperandMeta& meta : problem.outputs) needed += 2 * static_cast<double>(meta.extent_bytes());  // and the reference's
  for (const Problem& stage : problem.stages) needed += needed_bytes(stage);
  return needed;
}

}  // namespace

Question question_of(const ChoiceRegistry& registry, const Problem& problem, const MachineModel& machine) {
  return {.problem = to_string(problem),
          .family = problem.family,
          .choices = registry.list_choices(problem, machine),
          .needed_bytes = needed_bytes(problem)};
}

}  // namespace toroid::tune
