// What is done between the steps of a run: the host may end it, and is told how long they took.
#pragma once

#include <cstdint>

#include "runtime/program/executable.h"
#include "toroid/toroid.h"

namespace toroid::api {

class RunSteps final : public StepObserver {
 public:
  RunSteps(const ToroidRunOptions& options, const Executable& executable) : options_(options), executable_(executable) {}

  bool is_wanted() const { return options_.cancel != nullptr || options_.deadline_ns != 0 || options_.profile != nullptr; }
  // Throws Refusal where the run is to end.
  void check() const;
  void begin_step(int32_t step) override;
  void end_call() override { tell(); }

 private:
  void tell();

  const ToroidRunOptions& options_;
  const Executable& executable_;
  int32_t step_ = -1;  // that runs
  int64_t begin_ns_ = 0;
};

}  // namespace toroid::api
