#include "program/late_row.h"

#include <algorithm>
#include <variant>
#include <vector>

namespace toroid::program {
namespace {

using schedule::ScatterKernel;

// What writes the buffer, if it is a scatter, and nothing else writes it.
const ScatterKernel* only_writer(const schedule::ScheduledGraph& graph, BufferId id) {
  const ScatterKernel* found = nullptr;
  int64_t writers = 0;
  const auto look_at = [&](const schedule::Step& step, const ScatterKernel* scatter) {
    const std::vector<BufferId> written = schedule::writes_of(step);
    writers += std::count(written.begin(), written.end(), id);
    if (scatter != nullptr && scatter->out == id) found = scatter;
  };
  for (const schedule::Step& step : graph.schedule.steps) {
    if (const auto* group = std::get_if<schedule::ParallelKernels>(&step)) {
      for (const schedule::ParallelKernel& each : group->kernels)
        std::visit([&](const auto& kernel) { look_at(schedule::Step(kernel), std::get_if<ScatterKernel>(&each)); }, each);
    } else if (const auto* call = std::get_if<schedule::CallStep>(&step); call != nullptr && !call->updates.empty()) {
      const auto update =
          std::find_if(call->updates.begin(), call->updates.end(), [&](const ScatterKernel& each) { return each.out == id; });
      look_at(step, update == call->updates.end() ? nullptr : &*update);
    } else {
      look_at(step, std::get_if<ScatterKernel>(&step));
    }
  }
  return writers == 1 ? found : nullptr;
}

std::optional<LateRow> row_written(const schedule::ScheduledGraph& graph, const Operand& operand) {
  const ScatterKernel* const scatter = only_writer(graph, operand.buffer);
  if (scatter == nullptr) return std::nullopt;
  return schedule::row_set_by(*graph.schedule.loops, *scatter, {operand.buffer, operand.sizes, operand.strides, operand.offset});
}

}  // namespace

std::optional<LateRow> late_row(const schedule::ScheduledGraph& graph, const LibraryCall& call) {
  const std::optional<LateRow> of_keys = row_written(graph, call.inputs[1]), of_values = row_written(graph, call.inputs[2]);
  return of_keys && of_keys == of_values && call.inputs[1].sizes[2] == call.inputs[2].sizes[2] ? of_keys : std::nullopt;
}

}  // namespace toroid::program
