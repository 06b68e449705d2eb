#include "program/waits.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

namespace toroid::program {
namespace {

// By step of the main function.
std::vector<bool> waits_of(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  const schedule::Schedule& schedule = graphs[0].schedule;
  const loop::LoopProgram& loops = *schedule.loops;
  std::vector<bool> waits(module.main.steps.size());
  std::unordered_set<BufferId> under_way;  // what copies from the GPU write
  for (size_t s = 0; s < std::min(waits.size(), schedule.steps.size()); ++s) {
    const schedule::Step& step = schedule.steps[s];
    if (schedule::is_device_copy(step)) {
      const BufferId to = schedule::writes_of(step)[0];
      if (loops.buffer(to).on_host) under_way.insert(to);
      continue;
    }
    if (!module.main.steps[s].on_host || under_way.empty()) continue;
    const std::vector<BufferId> reads = schedule::reads_of(step);
    const auto is_under_way = [&](BufferId id) { return under_way.contains(id); };
    const auto is_over = [&](const schedule::Lifetime& each) { return each.last_step < s && is_under_way(each.buffer); };
    waits[s] = std::ranges::any_of(reads, is_under_way) || std::ranges::any_of(module.temporaries, is_over);
    if (waits[s]) under_way.clear();
  }
  return waits;
}

}  // namespace

void add_waits(const std::vector<schedule::ScheduledGraph>& graphs, Module& module) {
  const std::vector<bool> waits = waits_of(graphs, module);
  for (size_t s = 0; s < waits.size(); ++s) module.main.steps[s].waits = waits[s];
}

std::optional<std::string> fault_of_waits(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  const std::vector<bool> waits = waits_of(graphs, module);
  for (size_t s = 0; s < waits.size(); ++s) {
    if (waits[s] && !module.main.steps[s].waits) return fmt::format("step {} reads what a copy from the GPU may still write", s);
  }
  return std::nullopt;
}

}  // namespace toroid::program
