#include "driver/choices/triton_kernels.h"

#include <fmt/format.h>

#include "codegen/triton/triton_printer.h"
#include "schedule/cuda/kept_in_registers.h"
#include "support/match.h"

namespace toroid {

namespace {

// Why not; "" for one that is in Triton from now on. A row that a GPU's threads keep in their registers may be too long for a tile: what is
// kept is then computed again, piece by piece.
std::string mark(loop::LoopProgram& program, schedule::Kernel& kernel) {
  const auto take = [&](schedule::Kernel& form) {
    const auto printed = codegen::print_triton(program, form);
    const auto* reason = std::get_if<std::string>(&printed);
    if (reason != nullptr) return *reason;
    kernel = form;
    kernel.gpu->in_triton = true;
    return std::string();
  };
  const std::string reason = take(kernel);
  if (reason.empty() || kernel.stashes.empty()) return reason;
  schedule::Kernel again = schedule::with_nothing_kept(program, kernel);
  return take(again).empty() ? "" : reason;
}

}  // namespace

std::vector<std::string> take_triton(std::vector<schedule::ScheduledGraph>& graphs) {
  std::vector<std::string> others;
  for (schedule::ScheduledGraph& graph : graphs) {
    for (schedule::Step& step : graph.schedule.steps) {
      if (std::holds_alternative<schedule::BindStep>(step)) continue;
      if (auto* kernel = std::get_if<schedule::Kernel>(&step); kernel != nullptr && kernel->gpu) {
        const std::string reason = mark(*graph.schedule.loops, *kernel);
        if (!reason.empty()) others.push_back(fmt::format("{}: {}", kernel->name, reason));
        continue;
      }
      if (auto* scan = std::get_if<schedule::ScanKernel>(&step)) {
        const auto printed = codegen::print_triton(*graph.schedule.loops, step);
        const auto* reason = std::get_if<std::string>(&printed);
        scan->in_triton = reason == nullptr;
        if (reason != nullptr) others.push_back(fmt::format("{}: {}", scan->name, *reason));
        continue;
      }
      const char* const what = match(
          step, [](const schedule::ScatterKernel&) { return "a scatter"; },
          [](const schedule::ParallelKernels&) { return "kernels that are started together"; },
          [](const auto&) { return "a call or a product"; });
      others.push_back(fmt::format("{}: {}", schedule::name_of(step), what));
    }
  }
  return others;
}

}  // namespace toroid
