#include "program/streams/received_in_place.h"

#include <algorithm>
#include <optional>

#include "library/branch_calls.h"
#include "passes/collective.h"
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
  if (step.instructions.size() != 1) return false;
  const Instruction& only = step.instructions[0];
  return std::holds_alternative<Launch>(only) || std::holds_alternative<LaunchTogether>(only);
}

// A step that swaps, and the mailbox whose slots it takes in turns with others.
struct SwapStep {
  size_t step;
  uint64_t mailbox;
};

// The numbers of a collective operation's group; none where some are unknown.
std::optional<std::vector<int64_t>> group_of(const Library& op) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const std::optional<int64_t> number = known_attribute(op, i);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// All of a program; none where it is not known which of them share a mailbox.
std::vector<SwapStep> swaps_in_turns(const schedule::ScheduledGraph& graph) {
  std::vector<SwapStep> result;
  std::optional<std::vector<int64_t>> group;
  for (size_t s = 0; s < graph.schedule.steps.size(); ++s) {
    if (!swaps(graph.schedule.steps[s])) continue;
    const loop::Call& call = std::get<schedule::CallStep>(graph.schedule.steps[s]).call;
    const loop::Operand& sent = call.operands.at(0);
    const std::optional<int64_t> elements = sym::product(sent.sizes).try_value();
    const std::optional<std::vector<int64_t>> own = group_of(std::get<Library>(call.op));
    if (!elements || !own || (group && group != own)) return {};
    group = own;
    const DType dtype = graph.schedule.loops->buffer(sent.buffer).dtype;
    result.push_back({s, slot_bytes(static_cast<uint64_t>(*elements * size_bytes(dtype)))});
  }
  return result;
}

}  // namespace

std::vector<size_t> received_in_place(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  std::vector<size_t> result;
  const std::vector<Step>& all = module.main.steps;
  if (!module.subgraphs.empty()) return result;
  const std::vector<SwapStep> operations = swaps_in_turns(graphs[0]);
  if (operations.empty()) return result;
  const schedule::AccessTable table(*graphs[0].schedule.loops);
  std::vector<schedule::Accesses> accesses;  // of the steps that the schedule has; others read results
  for (const schedule::Step& each : graphs[0].schedule.steps) accesses.push_back(table.of(each));
  for (size_t i = 0; i < operations.size(); ++i) {
    const size_t s = operations[i].step;
    if (!all[s].is_beside) continue;
    const BufferId swapped = std::get<LibraryCall>(all[s].instructions.at(0)).outputs[0].buffer;
    // A slot that is not free for long would keep operations of other lanes from theirs.
    size_t end = all.size(), turns = 1;
    for (size_t next = i + 1; next < operations.size() && end == all.size(); ++next) {
      if (operations[next].mailbox != operations[i].mailbox) continue;
      if (all[operations[next].step].branch == all[s].branch) {
        end = operations[next].step;
      } else {
        ++turns;
      }
    }
    bool is_in_time = turns <= kLanes && is_in_arena(module, swapped);
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
