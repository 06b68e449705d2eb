#include "program/streams/lanes.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "program/streams/beside.h"
#include "program/streams/branches.h"
#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/launches/accesses.h"

namespace toroid::program {
namespace {

// Fewer collective operations of a lane are not worth its stream.
constexpr size_t kLeastOperations = 2;

// By lane, the last step of the call that is known to have ended.
using LaneClock = std::array<size_t, kLanes + 1>;

bool is_own_attention(const schedule::Step& step) {
  const auto* call = std::get_if<schedule::CallStep>(&step);
  return call != nullptr && std::holds_alternative<Attention>(call->call.op) &&
         (call->choice == schedule::kHopperAttention || call->choice == schedule::kFlashAttention);
}

bool can_be_on_lane(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const Step& step) {
  const auto position = static_cast<size_t>(&step - module.main.steps.data());
  const std::vector<schedule::Step>& steps = graphs[0].schedule.steps;
  if (position >= steps.size() || step.instructions.size() != 1 || step.on_host || step.waits) return false;
  if (is_own_attention(steps[position])) return std::holds_alternative<LibraryCall>(step.instructions[0]);
  if (swaps(steps[position])) return can_be_beside(graphs, module, module.main, step);
  return can_be_on_branch(graphs, module, module.main, step);
}

// The steps of the main function, with what they access. Tokens, which tell the order of collective operations, are no memory: that order
// is the program's, in all processes.
class LaneSteps {
 public:
  LaneSteps(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
    const schedule::AccessTable table(*graphs[0].schedule.loops);
    const std::vector<schedule::Step>& steps = graphs[0].schedule.steps;
    for (size_t s = 0; s < module.main.steps.size(); ++s) {
      Facts& its = facts_.emplace_back();
      if (s >= steps.size()) continue;
      its.can = can_be_on_lane(graphs, module, module.main.steps[s]);
      its.accesses = table.of(steps[s]);
      const auto* call = std::get_if<schedule::CallStep>(&steps[s]);
      its.communicates = swaps(steps[s]);
      if (!its.communicates) continue;
      for (BufferId token : tokens_of(*call))
        its.accesses.reads.erase(static_cast<uint32_t>(token)), its.accesses.writes.erase(static_cast<uint32_t>(token));
    }
  }

  size_t size() const { return facts_.size(); }
  bool can(size_t s) const { return facts_[s].can; }
  bool communicates(size_t s) const { return facts_[s].communicates; }
  const schedule::Accesses& accesses(size_t s) const { return facts_[s].accesses; }

 private:
  struct Facts {
    bool can = false, communicates = false;
    schedule::Accesses accesses;
  };

  static std::vector<BufferId> tokens_of(const schedule::CallStep& call) {
    std::vector<BufferId> tokens;
    const std::vector<BufferId> reads = schedule::reads_of(call), writes = schedule::writes_of(call);
    if (reads.size() > 1) tokens.push_back(reads[1]);
    if (writes.size() > 1) tokens.push_back(writes[1]);
    return tokens;
  }

  std::vector<Facts> facts_;
};

// Steps [first, end), and the lane of each.
struct LaneRegion {
  size_t first = 0, end = 0;
  std::vector<uint32_t> lanes;
};

// Sets of steps of a region that access what one of them, or a later step, writes.
class LaneChains {
 public:
  LaneChains(const LaneSteps& steps, const std::unordered_map<uint32_t, size_t>& last_write, size_t first)
      : steps_(steps), last_write_(last_write), first_(first) {}

  // False where it would join two chains that communicate; then it is no step of the region.
  bool add(size_t s) {
    std::vector<size_t> joined;
    const auto look = [&](uint32_t memory) {
      const auto written = last_write_.find(memory);
      if (written == last_write_.end() || written->second < first_) return;
      const auto known = chain_of_.find(memory);
      if (known != chain_of_.end()) joined.push_back(find(known->second));
    };
    for (uint32_t memory : steps_.accesses(s).reads) look(memory);
    for (uint32_t memory : steps_.accesses(s).writes) look(memory);
    std::sort(joined.begin(), joined.end());
    joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
    if (std::count_if(joined.begin(), joined.end(), [&](size_t each) { return operations_[each] > 0; }) > 1) return false;
    const size_t own = parent_.size();
    parent_.push_back(own);
    operations_.push_back(steps_.communicates(s) ? 1 : 0);
    for (size_t each : joined) parent_[each] = own, operations_[own] += operations_[each];
    const auto note = [&](uint32_t memory) {
      const auto written = last_write_.find(memory);
      if (written != last_write_.end() && written->second >= first_) chain_of_[memory] = own;
    };
    for (uint32_t memory : steps_.accesses(s).reads) note(memory);
    for (uint32_t memory : steps_.accesses(s).writes) note(memory);
    return true;
  }

  // Their lanes; none where there are more or fewer chains. One that does not communicate is on the first.
  std::vector<uint32_t> lanes() const {
    std::unordered_map<size_t, uint32_t> numbers;
    std::vector<uint32_t> result;
    for (size_t s = 0; s < parent_.size(); ++s) {
      const size_t root = find(s);
      if (operations_[root] == 0) {
        result.push_back(1);
        continue;
      }
      if (operations_[root] < kLeastOperations) return {};
      result.push_back(numbers.try_emplace(root, static_cast<uint32_t>(numbers.size() + 1)).first->second);
    }
    return numbers.size() == kLanes ? result : std::vector<uint32_t>();
  }

 private:
  size_t find(size_t s) const {
    while (parent_[s] != s) s = parent_[s];
    return s;
  }

  const LaneSteps& steps_;
  const std::unordered_map<uint32_t, size_t>& last_write_;
  const size_t first_;
  std::vector<size_t> parent_, operations_;        // of the region's steps; the operations of a chain's last step
  std::unordered_map<uint32_t, size_t> chain_of_;  // by memory, a step of the chain that accesses it
};

// The first region from `begin` on.
std::optional<LaneRegion> region_from(const LaneSteps& steps, size_t begin) {
  std::unordered_map<uint32_t, size_t> last_write;
  for (size_t s = 0; s < steps.size(); ++s) {
    for (uint32_t memory : steps.accesses(s).writes) last_write[memory] = s;
  }
  for (size_t first = begin; first < steps.size(); ++first) {
    if (!steps.can(first)) continue;
    LaneChains chains(steps, last_write, first);
    size_t end = first;
    while (end < steps.size() && steps.can(end) && !steps.accesses(end).orders_all && chains.add(end)) ++end;
    std::vector<uint32_t> lanes = chains.lanes();
    if (!lanes.empty()) return LaneRegion{first, end, std::move(lanes)};
    // What begins with a collective operation or behind it has less of them.
    if (steps.communicates(first)) first = end;
  }
  return std::nullopt;
}

// The first region from `begin` on that begins with an operation: what waits for it, and what does not, until a step needs both.
std::optional<LaneRegion> region_behind_operation(const LaneSteps& steps, size_t begin) {
  for (size_t first = begin; first < steps.size(); ++first) {
    if (!steps.can(first) || !steps.communicates(first)) continue;
    LaneRegion region{.first = first, .end = first, .lanes = {}};
    schedule::Accesses without, with;
    size_t operations = 0;
    for (size_t s = first; s < steps.size() && steps.can(s) && !steps.accesses(s).orders_all; ++s) {
      const bool waits = s == first || schedule::depend(with, steps.accesses(s));
      const bool needs_both = waits && schedule::depend(without, steps.accesses(s));
      if (needs_both || (!waits && steps.communicates(s))) break;
      operations += steps.communicates(s) ? 1 : 0;
      (waits ? with : without).add(steps.accesses(s));
      region.lanes.push_back(waits ? 2 : 1);
      region.end = s + 1;
    }
    const bool has_both = std::find(region.lanes.begin(), region.lanes.end(), 1u) != region.lanes.end();
    if (has_both && operations >= kLeastOperations) return region;
  }
  return std::nullopt;
}

// What is known to have ended when each step of lanes starts, as the program says.
class LaneClocks {
 public:
  explicit LaneClocks(const Module& module) {
    const std::vector<Step>& steps = module.main.steps;
    std::array<LaneClock, kLanes + 1> lanes{};
    bool is_in_region = false;
    for (size_t s = 0; s < steps.size(); ++s) {
      const uint32_t lane = steps[s].branch;
      if (lane == 0 || !is_in_region) {  // what begins, and what is behind all, knows all
        LaneClock all;
        all.fill(s);
        lanes.fill(all);
      }
      is_in_region = lane > 0;
      LaneClock& own = lanes[lane];
      for (size_t i = 0; i < std::min(steps[s].awaits, ends_.size()); ++i) join(own, ends_[i]);
      at_.push_back(own);
      own[lane] = s + 1;
      if (steps[s].is_beside || steps[s].is_marked) ends_.push_back(own);
    }
  }

  // Step s starts behind the end of `before`, of that lane.
  bool has_ended(size_t s, size_t before, uint32_t lane) const { return before < at_[s][lane]; }

 private:
  static void join(LaneClock& clock, const LaneClock& other) {
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }

  std::vector<LaneClock> at_, ends_;  // by step, how many steps have ended of each lane; by collective operation, at its end
};

// By memory and lane, the last step that accesses it.
using LastAccesses = std::unordered_map<uint32_t, std::array<std::optional<size_t>, kLanes + 1>>;

LastAccesses last_accesses(const Module& module, const LaneSteps& steps) {
  LastAccesses result;
  for (size_t s = 0; s < module.main.steps.size(); ++s) {
    for (const auto* list : {&steps.accesses(s).reads, &steps.accesses(s).writes}) {
      for (uint32_t memory : *list) result[memory][module.main.steps[s].branch] = s;
    }
  }
  return result;
}

// To which step a temporary must live: to the last one of its region whose lane does not know that all accesses have ended.
size_t needed_life(const Module& module, const LaneClocks& clocks, const LastAccesses& all, const schedule::Lifetime& life) {
  const auto found = all.find(static_cast<uint32_t>(life.buffer));
  if (found == all.end()) return life.last_step;
  const std::vector<Step>& steps = module.main.steps;
  size_t needed = life.last_step;
  for (uint32_t lane = 1; lane <= kLanes; ++lane) {
    if (!found->second[lane]) continue;
    const size_t access = *found->second[lane];
    std::array<bool, kLanes + 1> knows{};
    for (size_t s = access + 1, left = kLanes; s < steps.size() && steps[s].branch > 0 && left > 0; ++s) {
      if (knows[steps[s].branch]) continue;
      if (clocks.has_ended(s, access, lane)) {
        knows[steps[s].branch] = true;  // and so do all steps behind it
        --left;
      } else {
        needed = std::max(needed, s);
      }
    }
  }
  return needed;
}

// The steps before each operation of a lane, with it, in the order of these, and what is behind the last ones.
std::vector<std::vector<size_t>> stretches_of(const LaneRegion& region, const LaneSteps& steps) {
  std::vector<std::vector<size_t>> stretches;
  std::array<std::vector<size_t>, kLanes + 1> open;
  for (size_t s = region.first; s < region.end; ++s) {
    std::vector<size_t>& own = open[region.lanes[s - region.first]];
    own.push_back(s);
    if (steps.communicates(s)) stretches.push_back(std::exchange(own, {}));
  }
  for (std::vector<size_t>& own : open) {
    if (!own.empty()) stretches.push_back(std::move(own));
  }
  return stretches;
}

// The kernel whose end lets the next stretch start; none: it has no kernels.
std::optional<size_t> last_alone(const std::vector<size_t>& stretch, const LaneSteps& steps) {
  constexpr size_t kBeside = 2;
  const size_t kernels = stretch.size() - (steps.communicates(stretch.back()) ? 1 : 0);
  if (kernels == 0) return std::nullopt;
  return stretch[kernels - std::min(kernels, kBeside + 1)];
}

// Steps of a region, and those of the other lane whose ends they wait for.
using Waits = std::vector<std::pair<size_t, size_t>>;

// Each stretch starts behind what the one before it does alone.
Waits waits_of_stretches(const LaneRegion& region, const LaneSteps& steps) {
  Waits waits;
  const std::vector<std::vector<size_t>> stretches = stretches_of(region, steps);
  for (size_t i = 1; i < stretches.size(); ++i) {
    if (const std::optional<size_t> last = last_alone(stretches[i - 1], steps)) waits.emplace_back(stretches[i].front(), *last);
  }
  return waits;
}

// What communicates nothing, and stands behind kernels of the lane that does, starts with the last of these.
Waits waits_behind_operation(const LaneRegion& region, const LaneSteps& steps) {
  Waits waits;
  std::optional<size_t> last, before;  // kernels of the lane that communicates
  for (size_t s = region.first; s < region.end; ++s) {
    if (region.lanes[s - region.first] == 1) {
      if (before) waits.emplace_back(s, *before);
    } else if (!steps.communicates(s)) {
      before = std::exchange(last, s);
    }
  }
  return waits;
}

// `counted`: how many steps are counted before the region; then with it.
void add_region(Module& module, const LaneSteps& steps, const LaneRegion& region, const Waits& waits, size_t& counted) {
  std::vector<Step>& all = module.main.steps;
  for (size_t s = region.first; s < region.end; ++s) {
    all[s].branch = region.lanes[s - region.first];
    all[s].is_beside = steps.communicates(s);
  }
  for (const auto& [step, end] : waits) all[end].is_marked = true;
  std::vector<size_t> counts;
  for (size_t s = region.first; s < region.end; ++s) counts.push_back(counted += all[s].is_beside || all[s].is_marked ? 1 : 0);
  for (const auto& [step, end] : waits) all[step].awaits = counts[end - region.first];
}

}  // namespace

bool swaps(const schedule::Step& step) {
  const auto* call = std::get_if<schedule::CallStep>(&step);
  return call != nullptr && is_library(call->call.op, "collectives.swap");
}

bool has_lanes(const Module& module) {
  return std::any_of(module.main.steps.begin(), module.main.steps.end(),
                     [](const Step& each) { return each.branch > 0 && each.is_beside; });
}

std::optional<std::string> fault_of_lanes(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  const std::vector<Step>& all = module.main.steps;
  const bool has_any = has_lanes(module);
  for (size_t s = 0; s < all.size(); ++s) {
    if (has_any && all[s].branch > kLanes) return fmt::format("step {} is on lane {} of {}", s, all[s].branch, kLanes);
    if (!has_any && all[s].is_marked) return fmt::format("step {} is marked, and there are no lanes", s);
  }
  if (!has_any) return std::nullopt;
  const LaneSteps steps(graphs, module);
  const LaneClocks clocks(module);
  size_t operations = 0;
  std::unordered_map<uint32_t, std::array<std::optional<size_t>, kLanes + 1>> writers, users;
  for (size_t s = 0; s < all.size(); ++s) {
    const uint32_t lane = all[s].branch;
    if (all[s].awaits > operations)
      return fmt::format("step {} awaits {} steps beside others, of which {} are before it", s, all[s].awaits, operations);
    if (all[s].is_beside && (lane == 0 || !steps.communicates(s))) return fmt::format("step {} is beside others on no lane", s);
    if (all[s].is_marked && (lane == 0 || all[s].is_beside)) return fmt::format("step {} is marked, and no kernel of a lane", s);
    if (lane > 0 && !steps.can(s)) return fmt::format("step {} cannot be on a lane", s);
    if (lane > 0 && steps.communicates(s) && !all[s].is_beside) return fmt::format("step {} is on a lane, and not beside others", s);
    operations += all[s].is_beside || all[s].is_marked ? 1 : 0;
    const auto fault = [&](const std::array<std::optional<size_t>, kLanes + 1>& before) -> std::optional<std::string> {
      for (uint32_t other = 1; other < before.size(); ++other) {
        if (before[other] && other != lane && !clocks.has_ended(s, *before[other], other))
          return fmt::format("step {} is on another lane than step {}, for which it has to wait", s, *before[other]);
      }
      return std::nullopt;
    };
    for (uint32_t memory : steps.accesses(s).reads) {
      if (std::optional<std::string> found = fault(writers[memory])) return found;
      users[memory][lane] = s;
    }
    for (uint32_t memory : steps.accesses(s).writes) {
      if (std::optional<std::string> found = fault(users[memory])) return found;
      writers[memory][lane] = users[memory][lane] = s;
    }
  }
  const LastAccesses accesses = last_accesses(module, steps);
  for (const schedule::Lifetime& each : module.temporaries) {
    const size_t needed = needed_life(module, clocks, accesses, each);
    if (each.last_step >= needed) continue;
    return fmt::format("'{}' lives to step {}, and a step of another lane needs it beside step {}",
                       graphs[0].schedule.loops->buffer(each.buffer).name, each.last_step, needed);
  }
  return std::nullopt;
}

bool add_lanes(const std::vector<schedule::ScheduledGraph>& graphs, Module& module) {
  const std::vector<schedule::Step>& scheduled = graphs[0].schedule.steps;
  if (std::count_if(scheduled.begin(), scheduled.end(), swaps) < static_cast<ptrdiff_t>(kLeastOperations)) return false;
  const LaneSteps steps(graphs, module);
  size_t counted = 0;
  size_t begin = 0;
  while (const std::optional<LaneRegion> region = region_from(steps, begin)) {
    add_region(module, steps, *region, waits_of_stretches(*region, steps), counted);
    begin = region->end + 1;  // the step behind is none of another region: it waits
  }
  const bool has_halves = counted > 0;
  begin = 0;
  while (const std::optional<LaneRegion> region = has_halves ? std::nullopt : region_behind_operation(steps, begin)) {
    add_region(module, steps, *region, waits_behind_operation(*region, steps), counted);
    begin = region->end + 1;
  }
  if (counted == 0) return false;
  const LaneClocks clocks(module);
  const LastAccesses accesses = last_accesses(module, steps);
  for (schedule::Lifetime& each : module.temporaries) each.last_step = needed_life(module, clocks, accesses, each);
  return true;
}

}  // namespace toroid::program
