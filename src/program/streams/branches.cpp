#include "program/streams/branches.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "program/overlaps.h"
#include "program/streams/lanes.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/cudnn/cudnn_step.h"
#include "schedule/cuda/launches/accesses.h"
#include "schedule/cuda/products/product_tiles.h"
#include "schedule/cuda/ways/ways.h"

namespace toroid::program {
namespace {

// A region is taken where it saves as much, of its own time and in seconds.
constexpr double kLeastShare = 0.1, kLeastSeconds = 4e-6;
// What a kernel takes besides its work: in schedule::seconds_of, and in a graph, where one follows the other.
constexpr double kStart = 3e-6, kStartInGraph = 1e-6;
constexpr size_t kMostSteps = 64;

bool keeps_nothing(const schedule::Step& step) {
  if (const auto* call = std::get_if<schedule::CallStep>(&step)) {
    if (!call->gpu || call->call.scores || call->prologue || !call->updates.empty() ||
        schedule::cudnn_of(call->choice) != schedule::Cudnn::Never)
      return false;
    return call->gpu->shares == 0 && call->gpu->depth_warps == 0;  // no parts of tiles
  }
  if (const auto* group = std::get_if<schedule::ParallelKernels>(&step)) {
    return std::all_of(group->kernels.begin(), group->kernels.end(),
                       [](const schedule::ParallelKernel& each) { return std::holds_alternative<schedule::Kernel>(each); });
  }
  return std::holds_alternative<schedule::Kernel>(step);
}

// Blocks of its launch; none: not known.
std::optional<int64_t> blocks_of(const Step& step) {
  if (const auto* launch = std::get_if<Launch>(&step.instructions.at(0))) return launch->tasks.try_value();
  const auto* together = std::get_if<LaunchTogether>(&step.instructions.at(0));
  if (together == nullptr) return std::nullopt;
  int64_t blocks = 0;
  for (const Launch& each : together->kernels) {
    if (!each.tasks.is_const()) return std::nullopt;
    blocks += each.tasks.value();
  }
  return blocks;
}

class Regions {
 public:
  Regions(const std::vector<schedule::ScheduledGraph>& graphs, Module& module)
      : loops_(*graphs[0].schedule.loops), steps_(graphs[0].schedule.steps), module_(module), table_(loops_) {
    for (size_t s = 0; s < steps_.size(); ++s) {
      Facts& its = facts_.emplace_back();
      if (!can_be_on_branch(graphs, module, module.main, module.main.steps[s])) continue;
      its.can = true;
      // The estimate is that of a device which is filled: fewer blocks take longer, and leave the rest to others.
      const auto blocks = static_cast<double>(std::max<int64_t>(*blocks_of(module.main.steps[s]), 1));
      its.work = schedule::seconds_of(loops_, steps_[s]) - kStart;
      its.seconds = kStartInGraph + its.work / std::min(1.0, blocks / schedule::kMultiprocessors);
      its.accesses = table_.of(steps_[s]);
    }
  }

  void take() {
    for (size_t first = 0; first + 1 < facts_.size();) {
      const std::optional<Region> best = facts_[first].can ? best_from(first) : std::nullopt;
      if (!best) {
        ++first;
        continue;
      }
      for (size_t s = first; s < best->end; ++s) module_.main.steps[s].branch = best->branches[s - first];
      lengthen(first, best->end);
      first = best->end + 1;  // the step behind is none of another region: it waits
    }
  }

 private:
  struct Facts {
    bool can = false;
    double seconds = 0, work = 0;  // by itself; of the whole device
    schedule::Accesses accesses;
  };
  struct Region {
    size_t end;
    std::vector<uint32_t> branches;
  };

  // The chains of the steps [first, end): by step, the first one of its chain.
  struct Chains {
    std::vector<size_t> root;
    size_t find(size_t s) const {
      while (root[s] != s) s = root[s];
      return s;
    }
  };

  std::optional<Region> best_from(size_t first) const {
    std::optional<Region> best;
    double most = 0;
    Chains chains;
    for (size_t end = first + 1; end <= facts_.size() && end - first <= kMostSteps && facts_[end - 1].can; ++end) {
      const size_t own = end - first - 1;
      chains.root.push_back(own);
      for (size_t s = 0; s < own; ++s) {
        if (schedule::depend(facts_[first + s].accesses, facts_[end - 1].accesses)) chains.root[chains.find(s)] = chains.find(own);
      }
      Region region{end, {}};
      const double saved = plan(chains, first, region);
      if (saved > most) most = saved, best = std::move(region);
    }
    return best;
  }

  // Chains to branches, the longest first to the shortest; the seconds that it saves, or none.
  double plan(const Chains& chains, size_t first, Region& region) const {
    std::map<size_t, double> seconds;
    double all = 0, work = 0;
    for (size_t s = 0; s < chains.root.size(); ++s) {
      const Facts& its = facts_[first + s];
      seconds[chains.find(s)] += its.seconds;
      all += its.seconds;
      work += its.work;
    }
    if (seconds.size() < 2) return 0;
    std::vector<std::pair<size_t, double>> longest(seconds.begin(), seconds.end());
    std::stable_sort(longest.begin(), longest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::array<double, kMostBranches> load{};
    std::map<size_t, uint32_t> branch;
    for (const auto& [chain, time] : longest) {
      const auto least = std::min_element(load.begin(), load.end());
      *least += time;
      branch[chain] = static_cast<uint32_t>(least - load.begin()) + 1;
    }
    for (size_t s = 0; s < chains.root.size(); ++s) region.branches.push_back(branch.at(chains.find(s)));
    const double saved = all - std::max(*std::max_element(load.begin(), load.end()), work);
    return saved >= kLeastSeconds && saved >= kLeastShare * all ? saved : 0;
  }

  void lengthen(size_t first, size_t end) {
    for (schedule::Lifetime& each : module_.temporaries) {
      if (each.first_step >= first && each.first_step < end) each.first_step = first;
      if (each.last_step >= first && each.last_step < end) each.last_step = end - 1;
    }
  }

  const loop::LoopProgram& loops_;
  const std::vector<schedule::Step>& steps_;
  Module& module_;
  schedule::AccessTable table_;
  std::vector<Facts> facts_;
};

}  // namespace

bool can_be_on_branch(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const Function& function,
                      const Step& step) {
  if (&function != &module.main || step.instructions.size() != 1 || step.on_host) return false;
  const auto position = static_cast<size_t>(&step - function.steps.data());
  const schedule::ScheduledGraph& graph = graphs[function.graph];
  return position < graph.schedule.steps.size() && keeps_nothing(graph.schedule.steps[position]) && blocks_of(step).has_value();
}

std::optional<std::string> fault_of_branches(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module) {
  if (has_lanes(module)) return std::nullopt;  // lanes.h has its own rules
  const std::vector<Step>& steps = module.main.steps;
  const schedule::ScheduledGraph& graph = graphs[0];
  const schedule::AccessTable table(*graph.schedule.loops);
  for (size_t first = 0; first < steps.size(); ++first) {
    if (steps[first].branch == 0) continue;
    size_t end = first;
    while (end < steps.size() && steps[end].branch > 0) ++end;
    std::vector<schedule::Accesses> accesses;  // of the region's steps so far
    for (size_t s = first; s < end; ++s) {
      if (!can_be_on_branch(graphs, module, module.main, steps[s])) return fmt::format("step {} cannot be on a branch", s);
      accesses.push_back(table.of(graph.schedule.steps[s]));
      for (size_t before = first; before < s; ++before) {
        const bool are_ordered = steps[before].branch == steps[s].branch;
        if (!are_ordered && schedule::depend(accesses[before - first], accesses[s - first]))
          return fmt::format("step {} is on another branch than step {}, for which it has to wait", s, before);
      }
      const schedule::Overlap* const overlap = overlap_of(steps[s].instructions[0]);
      if (overlap->starts_early && (s == first || steps[s - 1].branch != steps[s].branch))
        return fmt::format("step {} starts early on another branch than the step before it", s);
    }
    for (const schedule::Lifetime& each : module.temporaries) {
      const bool begins_late = each.first_step > first && each.first_step < end,
                 ends_early = each.last_step >= first && each.last_step + 1 < end;
      if (begins_late || ends_early)
        return fmt::format("'{}' lives from step {} to {}, and the branches of steps {} to {} do not wait for each other",
                           graph.schedule.loops->buffer(each.buffer).name, each.first_step, each.last_step, first, end - 1);
    }
    first = end;
  }
  return std::nullopt;
}

void add_branches(const std::vector<schedule::ScheduledGraph>& graphs, Module& module) { Regions(graphs, module).take(); }

}  // namespace toroid::program
