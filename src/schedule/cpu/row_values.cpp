// Where lanes run along the results, what follows from reductions alone is computed once for each result, not again in each step of a later
// stage:
//
//   stage 0: for r in rows    acc0 = sum x[r, j]                 stage 0: for r in rows    acc0 = sum x[r, j]
//   stage 1: for r in rows    acc1 = sum x[r, j] - acc0 / n      stage 1: once             acc1 = max acc0 / n
//                                                                stage 2: for r in rows    acc2 = sum x[r, j] - acc1
//
// The maximum of one value is that value: accumulators are all that a kernel keeps of a result between stages.
#include <unordered_map>

#include "schedule/cpu/loops.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

class RowValues {
 public:
  RowValues(loop::LoopProgram& program, Kernel& kernel) : exprs_(program.exprs), kernel_(kernel) {}

  void run() {
    std::vector<Stage> stages;
    for (Stage& stage : kernel_.stages) {
      if (stage.inner) {
        Stage once;
        for (Statement& statement : stage.statements) {
          match(statement, [&](auto& s) { s.value = with_row_values(s.value, once); });
        }
        if (!once.statements.empty()) stages.push_back(std::move(once));
      }
      stages.push_back(std::move(stage));
    }
    kernel_.stages = std::move(stages);
  }

 private:
  ExprId with_row_values(ExprId id, Stage& once) {
    const loop::ExprTable::Leaf leaf = [&](ExprId each) -> std::optional<ExprId> {
      if (const auto known = kept_.find(each); known != kept_.end()) return known->second;
      const loop::ExprNode node = exprs_.node(each);
      const bool is_computed = std::holds_alternative<loop::Compute>(node.op) || std::holds_alternative<loop::Convert>(node.op);
      if (!is_floating(node.dtype) || !is_computed || !follows_from_reductions(each)) return std::nullopt;
      const AccumulatorId kept{static_cast<uint32_t>(kernel_.accumulators.size())};
      kernel_.accumulators.push_back({ReduceOp::Max, node.dtype, node.origin});
      once.statements.push_back(Accumulate{kept, each, 0});
      exprs_.set_origin(node.origin);
      return kept_[each] = exprs_.add(loop::Accumulated{kept}, node.dtype);
    };
    loop::ExprTable::Memo memo;
    return exprs_.rewrite(id, {}, leaf, memo);
  }

  // Is it made of reductions' results and numbers, and of nothing that is read?
  bool follows_from_reductions(ExprId id) const {
    bool has_result = false;
    for (ExprId each : loop::reachable(exprs_, {id})) {
      const loop::ExprOp& op = exprs_.node(each).op;
      const bool is_result = std::holds_alternative<loop::Accumulated>(op);
      has_result = has_result || is_result;
      if (!is_result && !std::holds_alternative<loop::Compute>(op) && !std::holds_alternative<loop::Literal>(op) &&
          !std::holds_alternative<loop::Convert>(op))
        return false;
    }
    return has_result;
  }

  loop::ExprTable& exprs_;
  Kernel& kernel_;
  std::unordered_map<ExprId, ExprId> kept_;
};

}  // namespace

void keep_row_values(loop::LoopProgram& program, Kernel& kernel) {
  if (kernel.vector == VectorAlong::Outer && !kernel.inner.empty()) RowValues(program, kernel).run();
}

}  // namespace toroid::schedule
