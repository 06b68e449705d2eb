#include "program/overlaps.h"

#include <algorithm>

#include <fmt/format.h>

#include "program/late_row.h"
#include "schedule/cuda/attention/attention_kernel.h"

namespace toroid::program {

const schedule::Overlap* overlap_of(const Instruction& instruction) {
  if (const auto* launch = std::get_if<Launch>(&instruction)) return &launch->overlap;
  if (const auto* together = std::get_if<LaunchTogether>(&instruction)) return &together->kernels.at(0).overlap;
  if (const auto* call = std::get_if<LibraryCall>(&instruction)) return &call->overlap;
  return nullptr;
}
schedule::Overlap* overlap_of(Instruction& instruction) {
  return const_cast<schedule::Overlap*>(overlap_of(const_cast<const Instruction&>(instruction)));
}

bool can_overlap(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const loop::LoopProgram& loops,
                 const Instruction& instruction) {
  if (const auto* launch = std::get_if<Launch>(&instruction))
    return schedule::can_overlap(loops, kernel_of(graphs, module.kernels[launch->kernel]));
  if (const auto* together = std::get_if<LaunchTogether>(&instruction))
    return std::any_of(together->kernels.begin(), together->kernels.end(), [](const Launch& each) { return sym::known_lt(0, each.tasks); });
  const auto* call = std::get_if<LibraryCall>(&instruction);
  return call != nullptr && call->kernel.ends_with(fmt::format("#{}", schedule::kSplitAttention)) &&
         schedule::can_overlap(call->inputs[1].sizes);
}

bool can_load_ahead(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const loop::LoopProgram& loops,
                    const Instruction& instruction) {
  const auto* call = std::get_if<LibraryCall>(&instruction);
  if (call != nullptr) return &loops == graphs[0].schedule.loops.get() && late_row(graphs[0], *call).has_value();
  const auto* launch = std::get_if<Launch>(&instruction);
  if (launch == nullptr) return false;
  const schedule::Step kernel = kernel_of(graphs, module.kernels[launch->kernel]);
  const auto* step = std::get_if<schedule::CallStep>(&kernel);
  if (step != nullptr && !step->updates.empty()) return &loops == graphs[0].schedule.loops.get();  // all rows but these
  return schedule::can_load_ahead(loops, kernel);
}

void add_overlaps(const std::vector<schedule::ScheduledGraph>& graphs, Module& module) {
  const auto add = [&](Function& function) {
    const loop::LoopProgram& loops = *graphs[function.graph].schedule.loops;
    schedule::Overlap* before = nullptr;  // of the launch right before, if it can
    uint32_t branch = 0;
    for (Step& step : function.steps) {
      if (std::exchange(branch, step.branch) != step.branch) before = nullptr;  // it is on another stream
      if (step.awaits > 0 || step.on_host) before = nullptr;
      if (step.on_host) continue;
      for (Instruction& each : step.instructions) {
        schedule::Overlap* const own = can_overlap(graphs, module, loops, each) ? overlap_of(each) : nullptr;
        if (before != nullptr && own != nullptr) {
          before->lets_next_start = own->starts_early = true;
          own->loads_ahead = can_load_ahead(graphs, module, loops, each);
        }
        before = own;
      }
    }
  };
  add(module.main);
  for (auto& [index, function] : module.subgraphs) add(function);
}

}  // namespace toroid::program
