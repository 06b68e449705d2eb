// The plans of a CPU with vectors, caches and threads.
#include <algorithm>

#include "schedule/buffer_lists.h"
#include "schedule/cpu/forms.h"
#include "schedule/fusion/parallel_kernels.h"
#include "schedule/planner.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kSmallFinish = 16384;

class CpuPlanner final : public Planner {
 public:
  void prepare(loop::LoopProgram& program, std::optional<bool> on_host) const override {
    split_large_reductions(program, {.on_host = on_host});
  }

  EpilogueAttempt as_epilogue(loop::LoopProgram& program, const Kernel& kernel, const loop::Call& call, BufferId product) const override {
    return schedule::as_epilogue(program, kernel, call, product);
  }

  // A kernel that is small and reads what the step before it wrote becomes that step's finish: the mean over the rows of a loss needs no
  // launch of its own.
  void append(loop::LoopProgram& program, std::vector<Step>& steps, Kernel kernel, bool fuse) const override {
    choose_loops(program, kernel);
    auto* before = steps.empty() || !fuse ? nullptr : std::get_if<Kernel>(&steps.back());
    const bool reads_it = before != nullptr && shares_any(kernel.reads, before->writes);
    if (!reads_it || work_hint(kernel) > kSmallFinish || work_hint(*before) <= kSmallFinish) {
      steps.push_back(std::move(kernel));
      return;
    }
    append_new(before->reads, kernel.reads);
    append_new(before->writes, kernel.writes);
    add_provenance(before->provenance, kernel.provenance);
    before->finish.push_back(std::move(kernel));
  }

  ChainDecisions finish(Schedule& schedule, bool fuse, Forms forms) const override {
    loop::LoopProgram& program = *schedule.loops;
    if (fuse) launch_together(schedule.steps);
    choose_forms(program, schedule.prepare, forms == Forms::Measured ? Forms::Estimated : forms);
    choose_forms(program, schedule.steps, forms);
    for (auto* steps : {&schedule.prepare, &schedule.steps}) {
      for (Step& step : *steps) {
        if (auto* kernel = std::get_if<Kernel>(&step)) round_shared_products(program, *kernel);
        if (auto* call = std::get_if<CallStep>(&step); call != nullptr && call->epilogue) round_shared_products(program, *call->epilogue);
        if (auto* group = std::get_if<ParallelKernels>(&step)) {
          for (ParallelKernel& each : group->kernels) {
            if (auto* kernel = std::get_if<Kernel>(&each)) round_shared_products(program, *kernel);
          }
        }
      }
    }
    return fuse ? chain_convolutions(program, schedule.steps) : ChainDecisions();
  }
};

}  // namespace

const Planner& cpu_planner() {
  static const CpuPlanner planner;
  return planner;
}

const Planner& plain_planner() {
  static const Planner planner;
  return planner;
}

}  // namespace toroid::schedule
