#include "schedule/cuda/products/epilogue_work.h"

#include "schedule/buffer_lists.h"
#include "support/match.h"

namespace toroid::schedule {

EpilogueWork work_of_epilogue(const loop::LoopProgram& program, const Kernel& kernel, const std::vector<BufferId>& products) {
  constexpr double kOfFunction = 12;  // instructions, about: an error function, an exponential
  EpilogueWork work;
  const auto add = [&](BufferId id) { work.bytes += static_cast<double>(size_bytes(program.buffer(id).dtype)); };
  for (BufferId id : kernel.writes) add(id);
  for (BufferId id : kernel.reads) {
    const bool is_large = !contains(products, id) && program.buffer(id).sizes.size() >= program.buffer(products[0]).sizes.size();
    if (is_large) add(id), ++work.loads;
  }
  std::vector<ExprId> values;
  for (const Statement& statement : kernel.stages[0].statements) match(statement, [&](const auto& s) { values.push_back(s.value); });
  for (ExprId id : loop::reachable(program.exprs, values)) {
    const auto* compute = std::get_if<loop::Compute>(&program.exprs.node(id).op);
    if (compute != nullptr) work.operations += compute->operands.size() == 1 ? kOfFunction : 1;
  }
  return work;
}

}  // namespace toroid::schedule
