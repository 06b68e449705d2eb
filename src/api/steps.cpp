#include "api/steps.h"

#include <time.h>

#include "api/status.h"

namespace toroid::api {
namespace {

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void RunSteps::check() const {
  if (options_.cancel != nullptr && __atomic_load_n(options_.cancel, __ATOMIC_RELAXED) != 0)
    fail(TOROID_ERROR_CANCELLED, "the run was cancelled");
  if (options_.deadline_ns != 0 && monotonic_ns() >= options_.deadline_ns)
    fail(TOROID_ERROR_DEADLINE, "the run was not done before its deadline");
}

void RunSteps::begin_step(int32_t step) {
  if (options_.profile != nullptr) tell();
  check();
  step_ = step;
  if (options_.profile != nullptr) begin_ns_ = monotonic_ns();
}

void RunSteps::tell() {
  if (options_.profile == nullptr || step_ < 0) return;
  const ToroidStepInfo& info = executable_.last_variant().steps[step_];
  const ToroidStepTime time{
      sizeof(ToroidStepTime),    static_cast<int32_t>(executable_.last_variant_position()), step_, info.name, info.origin,
      monotonic_ns() - begin_ns_};
  step_ = -1;
  options_.profile(options_.profile_user, &time);
}

}  // namespace toroid::api
