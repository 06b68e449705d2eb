// The plans of a program with tensors on the host and on a GPU.
//
// Each planner sees the steps of its own side, in order, with the copies between the two and the numbers that become known: those are in
// both lists, where they stay in their order. So a planner sees all who read or write its buffers, and may move its own steps as it does in
// a program of one device. Between two copies the GPU's steps come first: it starts on them, and the host does its own meanwhile.
#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "schedule/planner.h"

namespace toroid::schedule {
namespace {

bool is_of_both(const Step& step) { return is_device_copy(step) || std::holds_alternative<BindStep>(step); }

class MixedPlanner final : public Planner {
 public:
  explicit MixedPlanner(const Planner& gpu) : gpu_(gpu) {}

  const Planner& of_subgraphs() const override { return gpu_.of_subgraphs(); }

  void prepare(loop::LoopProgram& program, std::optional<bool> /*on_host*/) const override {
    cpu_planner().prepare(program, true);
    gpu_.prepare(program, false);
  }

  EpilogueAttempt as_epilogue(loop::LoopProgram& program, const Kernel& kernel, const loop::Call& call, BufferId product) const override {
    return of(program.buffer(product).on_host).as_epilogue(program, kernel, call, product);
  }

  void append(loop::LoopProgram& program, std::vector<Step>& steps, Kernel kernel, bool fuse) const override {
    const bool on_host = program.buffer(kernel.writes[0]).on_host;
    if (!steps.empty() && is_on_host(program, steps.back()) == on_host) return of(on_host).append(program, steps, std::move(kernel), fuse);
    std::vector<Step> own;
    of(on_host).append(program, own, std::move(kernel), fuse);
    std::ranges::move(own, std::back_inserter(steps));
  }

  ChainDecisions finish(Schedule& schedule, bool fuse, Forms forms) const override {
    Schedule host, gpu;
    for (auto* steps : {&schedule.prepare, &schedule.steps}) {
      const bool once = steps == &schedule.prepare;
      for (Step& step : *steps) {
        const bool on_host = is_on_host(*schedule.loops, step);
        if (on_host || is_of_both(step)) (once ? host.prepare : host.steps).push_back(step);
        if (!on_host || is_of_both(step)) (once ? gpu.prepare : gpu.steps).push_back(std::move(step));
      }
    }
    gpu.loops = std::move(schedule.loops);
    gpu_.finish(gpu, fuse, forms);
    host.loops = std::move(gpu.loops);
    ChainDecisions chains = cpu_planner().finish(host, fuse, forms);
    schedule.loops = std::move(host.loops);
    schedule.prepare = merged(host.prepare, gpu.prepare);
    schedule.steps = merged(host.steps, gpu.steps);
    return chains;
  }

 private:
  const Planner& of(bool on_host) const { return on_host ? cpu_planner() : gpu_; }

  static std::vector<Step> merged(std::vector<Step>& host, std::vector<Step>& gpu) {
    std::vector<Step> result;
    size_t h = 0;
    const auto take_host = [&] {
      for (; h < host.size() && !is_of_both(host[h]); ++h) result.push_back(std::move(host[h]));
    };
    for (Step& step : gpu) {
      if (is_of_both(step)) {
        take_host();
        TOROID_CHECK(h < host.size() && name_of(host[h]) == name_of(step) && reads_of(host[h]) == reads_of(step),
                     "a planner moved the copy '{}'", name_of(step));
        ++h;
      }
      result.push_back(std::move(step));
    }
    take_host();
    TOROID_CHECK(h == host.size(), "a planner moved the copy '{}'", name_of(host[h]));
    return result;
  }

  const Planner& gpu_;
};

}  // namespace

// There are a few, which stay.
const Planner& mixed_planner(const Planner& gpu) {
  static std::mutex mutex;
  static std::map<const Planner*, MixedPlanner> planners;
  const std::lock_guard lock(mutex);
  return planners.try_emplace(&gpu, gpu).first->second;
}

}  // namespace toroid::schedule
