// Which products are rounded, and never fused with an addition: those that are used more than once.
//
// A fused multiply-add takes the product before it is rounded. Where the same product is used elsewhere too, as itself, the two differ by a
// residue:
//
//   y = a * b;  y - y              fma(a, b, -y) is what the rounding took away, not 0
//   m = max over j of a * b;  a * b - m     likewise at the largest element
//
// So what a kernel uses twice, in one stage or in several, has one value. Nothing is lost: the product is computed for its other use
// anyway.
#include <algorithm>
#include <unordered_map>

#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

struct Uses {
  int count = 0;
  bool is_added = false;  // by one of them
};

bool adds(ScalarOp op) { return op == ScalarOp::Add || op == ScalarOp::Sub || op == ScalarOp::Neg; }

void count_uses(const loop::ExprTable& exprs, const Kernel& kernel, std::unordered_map<ExprId, Uses>& uses) {
  std::vector<ExprId> roots;
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) {
      const ExprId value = match(statement, [](const auto& s) { return s.value; });
      const auto* accumulate = std::get_if<Accumulate>(&statement);
      Uses& its = uses[value];
      ++its.count;
      its.is_added =
          its.is_added || (accumulate != nullptr && is_float_sum(kernel.accumulators[static_cast<size_t>(accumulate->accumulator)]));
      roots.push_back(value);
    }
  }
  for (ExprId id : loop::reachable(exprs, roots)) {
    const auto* compute = std::get_if<loop::Compute>(&exprs.node(id).op);
    for (ExprId operand : exprs.operands(id)) {
      Uses& its = uses[operand];
      ++its.count;
      its.is_added = its.is_added || (compute != nullptr && adds(compute->op));
    }
  }
}

}  // namespace

void round_shared_products(const loop::LoopProgram& program, Kernel& kernel) {
  for (auto* list : {&kernel.finish, &kernel.other_forms}) {
    for (Kernel& each : *list) round_shared_products(program, each);
  }
  std::unordered_map<ExprId, Uses> uses;
  count_uses(program.exprs, kernel, uses);
  std::vector<ExprId> found;
  for (const auto& [id, its] : uses) {
    const auto* compute = std::get_if<loop::Compute>(&program.exprs.node(id).op);
    if (its.count > 1 && its.is_added && compute != nullptr && !adds(compute->op) && is_floating(program.exprs.dtype(id)))
      found.push_back(id);
  }
  std::sort(found.begin(), found.end());
  kernel.unfused.insert(kernel.unfused.end(), found.begin(), found.end());
}

}  // namespace toroid::schedule
