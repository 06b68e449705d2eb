#include "schedule/fusion/parallel_kernels.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "schedule/fusion/group.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kSmall = 32768;         // elements visited: more are work for several threads by themselves
constexpr int64_t kWorthALaunch = 32768;  // of all together

bool is_small(const Step& step) {
  const auto* kernel = std::get_if<Kernel>(&step);
  return kernel != nullptr && kernel->finish.empty() && work_hint(*kernel) <= kSmall;
}

// How many kernels of the run each has to wait for, one after the other.
std::vector<size_t> waits_of(std::span<const Step> run) {
  std::unordered_map<BufferId, size_t> written, read;  // the first wave in which the buffer is complete, or no longer read
  std::vector<size_t> waits;
  for (const Step& step : run) {
    size_t wait = 0;
    auto follow = [&](const std::unordered_map<BufferId, size_t>& done, const std::vector<BufferId>& buffers) {
      for (BufferId id : buffers) {
        if (const auto found = done.find(id); found != done.end()) wait = std::max(wait, found->second);
      }
    };
    const std::vector<BufferId> reads = reads_of(step), writes = writes_of(step);
    follow(written, reads);
    follow(written, writes);
    follow(read, writes);
    for (BufferId id : writes) written[id] = wait + 1;
    for (BufferId id : reads) read[id] = std::max(read[id], wait + 1);
    waits.push_back(wait);
  }
  return waits;
}

void append_run(std::vector<Step> run, std::vector<Step>& steps) {
  struct Wave {
    std::vector<size_t> kernels;  // of the run
    int64_t work = 0;
    bool is_group() const { return kernels.size() > 1 && work >= kWorthALaunch; }
  };
  std::vector<Wave> waves;
  const std::vector<size_t> waits = waits_of(run);
  for (size_t i = 0; i < run.size(); ++i) {
    waves.resize(std::max(waves.size(), waits[i] + 1));
    waves[waits[i]].kernels.push_back(i);
    waves[waits[i]].work += work_hint(std::get<Kernel>(run[i]));
  }
  if (std::none_of(waves.begin(), waves.end(), [](const Wave& wave) { return wave.is_group(); })) {
    std::move(run.begin(), run.end(), std::back_inserter(steps));
    return;
  }
  for (const Wave& wave : waves) {
    std::vector<Step> kernels;
    for (size_t i : wave.kernels) kernels.push_back(std::move(run[i]));
    if (wave.is_group()) {
      steps.push_back(as_group(std::move(kernels)));
    } else {
      std::move(kernels.begin(), kernels.end(), std::back_inserter(steps));
    }
  }
}

}  // namespace

ParallelKernels as_group(std::vector<Step> steps) {
  ParallelKernels group;
  group.name = name_of(steps[0]) + "_and_" + std::to_string(steps.size() - 1) + "_more";
  for (Step& step : steps) {
    add_provenance(group.provenance, provenance_of(step));
    if (auto* scatter = std::get_if<ScatterKernel>(&step)) {
      group.kernels.emplace_back(std::move(*scatter));
    } else {
      group.kernels.emplace_back(std::move(std::get<Kernel>(step)));
    }
  }
  return group;
}

void launch_together(std::vector<Step>& steps) {
  std::vector<Step> result, run;
  for (Step& step : steps) {
    if (is_small(step)) {
      run.push_back(std::move(step));
      continue;
    }
    append_run(std::exchange(run, {}), result);
    result.push_back(std::move(step));
  }
  append_run(std::move(run), result);
  steps = std::move(result);
}

}  // namespace toroid::schedule
