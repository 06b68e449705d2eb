#include "program/streams/beside.h"

#include <algorithm>

#include <fmt/format.h>

#include "program/streams/lanes.h"
#include "schedule/cuda/launches/accesses.h"

namespace toroid::program {
namespace {

bool communicates(const schedule::Step& step) {
  const auto* call = std::get_if<schedule::CallStep>(&step);
  return call != nullptr && is_collective(call->call.op);
}

// Where the buffer is, or none: it stays there in a call, and is nothing that the call updates in place.
bool stays(const Module& module, const Function& function, BufferId id) {
  const auto found =
      std::find_if(function.buffers.begin(), function.buffers.end(), [&](const PlacedBuffer& each) { return each.id == id; });
  if (found == function.buffers.end()) return false;
  const Place& place = found->place;
  if (const auto* result = std::get_if<InResult>(&place)) return !module.outputs[result->position].is_in_place;
  return std::holds_alternative<InArena>(place) || std::holds_alternative<InArgument>(place) || std::holds_alternative<InPrepared>(place);
}

// The main function's steps, and which of them keep their order.
class Steps {
 public:
  Steps(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) : steps_(module.main.steps) {
    const schedule::AccessTable table(*graphs[0].schedule.loops);
    for (const schedule::Step& each : graphs[0].schedule.steps) accesses_.push_back(table.of(each));
  }

  bool depend(size_t before, size_t behind) const {
    // Without a step of the schedule, it is any.
    return behind >= accesses_.size() || schedule::depend(accesses_[before], accesses_[behind]);
  }

  // The first step behind it that is not beside, and must wait for it; as many as there are: none.
  size_t waiting(size_t step) const {
    for (size_t s = step + 1; s < steps_.size(); ++s) {
      if (!steps_[s].is_beside && depend(step, s)) return start_of(s);
    }
    return steps_.size();
  }

  // Where a step's branch begins: all of its region waits where that does.
  size_t start_of(size_t step) const {
    if (steps_[step].branch == 0) return step;
    while (step > 0 && steps_[step - 1].branch > 0) --step;
    return step;
  }

  // By step, how many of those beside have ended when it starts, as the program says.
  std::vector<size_t> ended() const {
    std::vector<size_t> result;
    size_t all = 0;
    for (const Step& each : steps_) result.push_back(all = std::max(all, each.awaits));
    return result;
  }

 private:
  const std::vector<Step>& steps_;
  std::vector<schedule::Accesses> accesses_;
};

// The temporaries of a step, as positions in Module::temporaries.
std::vector<size_t> temporaries_of(const Module& module, const Step& step) {
  std::vector<size_t> slots;
  const auto& call = std::get<LibraryCall>(step.instructions.at(0));
  for (const std::vector<Operand>* list : {&call.inputs, &call.outputs}) {
    for (const Operand& operand : *list) {
      const auto found = std::find_if(module.temporaries.begin(), module.temporaries.end(),
                                      [&](const schedule::Lifetime& each) { return each.buffer == operand.buffer; });
      if (found != module.temporaries.end()) slots.push_back(static_cast<size_t>(found - module.temporaries.begin()));
    }
  }
  return slots;
}

}  // namespace

bool can_be_beside(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const Function& function, const Step& step) {
  if (&function != &module.main || step.instructions.size() != 1 || step.on_host) return false;
  const auto position = static_cast<size_t>(&step - function.steps.data());
  const std::vector<schedule::Step>& steps = graphs[function.graph].schedule.steps;
  if (position >= steps.size() || !communicates(steps[position])) return false;
  const auto* call = std::get_if<LibraryCall>(&step.instructions[0]);
  if (call == nullptr || call->epilogue) return false;
  const auto all_stay = [&](const std::vector<Operand>& operands) {
    return std::all_of(operands.begin(), operands.end(), [&](const Operand& each) { return stays(module, function, each.buffer); });
  };
  return all_stay(call->inputs) && all_stay(call->outputs);
}

std::optional<std::string> fault_of_beside(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  if (has_lanes(module)) return std::nullopt;  // lanes.h has its own rules
  const std::vector<Step>& steps = module.main.steps;
  const Steps all(graphs, module);
  const std::vector<size_t> ended = all.ended();
  size_t number = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (ended[s] > number) return fmt::format("step {} awaits {} steps beside others, of which {} are before it", s, ended[s], number);
    if (steps[s].awaits > 0 && all.start_of(s) != s) return fmt::format("step {} awaits others in the midst of branches", s);
    if (!steps[s].is_beside) continue;
    if (!can_be_beside(graphs, module, module.main, steps[s])) return fmt::format("step {} cannot be beside others", s);
    ++number;
    const size_t waiting = all.waiting(s);
    if (waiting < steps.size() && ended[waiting] < number)
      return fmt::format("step {} has to wait for step {}, which is beside it", waiting, s);
    const auto end = static_cast<size_t>(
        std::find_if(ended.begin() + static_cast<ptrdiff_t>(s), ended.end(), [&](size_t each) { return each >= number; }) - ended.begin());
    for (size_t slot : temporaries_of(module, steps[s])) {
      const schedule::Lifetime& each = module.temporaries[slot];
      if (each.last_step + 1 >= end) continue;
      return fmt::format("'{}' lives to step {}, and step {} beside the others may end with step {}",
                         graphs[0].schedule.loops->buffer(each.buffer).name, each.last_step, s, end - 1);
    }
  }
  return std::nullopt;
}

void add_beside(const std::vector<schedule::ScheduledGraph>& graphs, Module& module) {
  std::vector<Step>& steps = module.main.steps;
  for (Step& step : steps) step.is_beside = step.branch == 0 && can_be_beside(graphs, module, module.main, step);
  const Steps all(graphs, module);
  const auto has_company = [&](size_t s) {
    const auto begin = steps.begin() + static_cast<ptrdiff_t>(s), end = steps.begin() + static_cast<ptrdiff_t>(all.waiting(s));
    return std::any_of(begin, end, [](const Step& each) { return !each.is_beside; });
  };
  // The last first: one that turns out to be alone is no company, and what is before it may wait for it.
  for (bool more = true; more;) {
    more = false;
    for (size_t s = steps.size(); s-- > 0;) {
      if (!steps[s].is_beside || has_company(s)) continue;
      steps[s].is_beside = false;
      more = true;
    }
  }
  std::vector<size_t> beside;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].is_beside) beside.push_back(s);
  }
  for (size_t i = 0; i < beside.size(); ++i) {
    const size_t waiting = all.waiting(beside[i]);
    if (waiting < steps.size()) steps[waiting].awaits = std::max(steps[waiting].awaits, i + 1);
  }
  const std::vector<size_t> ended = all.ended();
  for (size_t i = 0; i < beside.size(); ++i) {
    const auto end = static_cast<size_t>(std::find_if(ended.begin(), ended.end(), [&](size_t each) { return each > i; }) - ended.begin());
    for (size_t slot : temporaries_of(module, steps[beside[i]]))
      module.temporaries[slot].last_step = std::max(module.temporaries[slot].last_step, end - 1);
  }
}

}  // namespace toroid::program
