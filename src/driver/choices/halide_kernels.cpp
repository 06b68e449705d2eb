#include "driver/choices/halide_kernels.h"

#include <fmt/format.h>

#include "codegen/halide/halide_printer.h"
#include "support/match.h"

namespace toroid {

std::variant<schedule::Kernel, std::string> in_halide(const loop::LoopProgram& program, schedule::Kernel kernel,
                                                      const std::string& autoscheduler) {
  const auto refusal = [&](const schedule::Kernel& each) {
    const auto printed = codegen::print_halide(program, each, autoscheduler);
    const auto* reason = std::get_if<std::string>(&printed);
    return reason == nullptr ? std::string() : *reason;
  };
  std::string reason = refusal(kernel);
  for (const schedule::Kernel& each : kernel.finish) {
    if (reason.empty()) reason = refusal(each);
  }
  if (!reason.empty()) return reason;
  kernel.other_forms.clear();
  kernel.halide = autoscheduler;
  return kernel;
}

std::vector<std::string> take_halide(std::vector<schedule::ScheduledGraph>& graphs, const std::string& autoscheduler) {
  std::vector<std::string> others;
  const auto take = [&](const loop::LoopProgram& loops, schedule::Step& step) {
    if (std::holds_alternative<schedule::BindStep>(step)) return;
    if (auto* kernel = std::get_if<schedule::Kernel>(&step)) {
      auto taken = in_halide(loops, *kernel, autoscheduler);
      if (const auto* reason = std::get_if<std::string>(&taken)) {
        others.push_back(fmt::format("{}: {}", kernel->name, *reason));
      } else {
        *kernel = std::get<schedule::Kernel>(std::move(taken));
      }
      return;
    }
    const char* const what = match(
        step, [](const schedule::ScanKernel&) { return "a scan"; }, [](const schedule::ScatterKernel&) { return "a scatter"; },
        [](const schedule::ParallelKernels&) { return "kernels that are started together"; },
        [](const schedule::CallStep& call) { return call.epilogue ? "a call with an epilogue" : "a call"; },
        [](const auto&) { return "a chain of calls"; });
    others.push_back(fmt::format("{}: {}", schedule::name_of(step), what));
  };
  for (schedule::ScheduledGraph& graph : graphs) {
    for (auto* steps : {&graph.schedule.prepare, &graph.schedule.steps}) {
      for (schedule::Step& step : *steps) take(*graph.schedule.loops, step);
    }
  }
  return others;
}

}  // namespace toroid
