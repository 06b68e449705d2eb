#include "program/streams/received_in_place.h"

#include <algorithm>

#include "program/streams/lanes.h"
#include "schedule/cuda/launches/accesses.h"

namespace toroid::program {
namespace {

bool is_in_arena(const Module& module, BufferId id) {
  const std::vector<PlacedBuffer>& all = module.main.buffers;
  return std::any_of(all.begin(), all.end(),
                     [&](const PlacedBuffer& each) { return each.id == id && std::holds_alternative<InArena>(each.place); });
}

bool is_launch(const Step& step) {
  const Instruction& only = step.instructions.at(0);
  return std::holds_alternative<Launch>(only) || std::holds_alternative<LaunchTogether>(only);
}

// Are all swaps of the program of as many bytes? Then they take the slots of one mailbox in turns, and none waits for a slot that a later
// one gives back.
bool take_turns(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  const std::vector<schedule::Step>& steps = graphs[0].schedule.steps;
  const LibraryCall* first = nullptr;
  for (size_t s = 0; s < std::min(steps.size(), module.main.steps.size()); ++s) {
    if (!swaps(steps[s])) continue;
    const auto& call = std::get<LibraryCall>(module.main.steps[s].instructions[0]);
    if (first == nullptr) first = &call;
    const auto dtype = [&](const LibraryCall& of) { return graphs[0].schedule.loops->buffer(of.inputs[0].buffer).dtype; };
    const bool is_same = sym::known_eq(sym::product(call.inputs[0].sizes), sym::product(first->inputs[0].sizes));
    if (!is_same || dtype(call) != dtype(*first)) return false;
  }
  return module.subgraphs.empty();
}

}  // namespace

std::vector<size_t> received_in_place(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  std::vector<size_t> result;
  const std::vector<Step>& all = module.main.steps;
  if (!take_turns(graphs, module)) return result;
  const schedule::AccessTable table(*graphs[0].schedule.loops);
  std::vector<schedule::Accesses> accesses;  // of the steps that the schedule has; others read results
  for (const schedule::Step& each : graphs[0].schedule.steps) accesses.push_back(table.of(each));
  std::vector<size_t> operations;
  for (size_t s = 0; s < accesses.size(); ++s) {
    if (swaps(graphs[0].schedule.steps[s])) operations.push_back(s);
  }
  for (size_t i = 0; i < operations.size(); ++i) {
    const size_t s = operations[i];
    if (!all[s].is_beside) continue;
    const BufferId swapped = std::get<LibraryCall>(all[s].instructions[0]).outputs[0].buffer;
    // A slot that is not free for long would keep operations of other lanes from theirs.
    size_t next = i + 1;
    while (next < operations.size() && all[operations[next]].branch != all[s].branch) ++next;
    const size_t end = next < operations.size() ? operations[next] : all.size();
    bool is_in_time = next - i <= kLanes && is_in_arena(module, swapped);
    for (size_t reader = s + 1; reader < accesses.size() && is_in_time; ++reader) {
      if (!accesses[reader].reads.contains(static_cast<uint32_t>(swapped))) continue;
      // What is on no lane is behind all before it, and before all behind it.
      const bool is_in_order = all[reader].branch == all[s].branch || all[reader].branch == 0;
      is_in_time = reader < end && is_in_order && is_launch(all[reader]);
    }
    if (is_in_time) result.push_back(s);
  }
  return result;
}

}  // namespace toroid::program
