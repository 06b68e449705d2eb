// What a running program may call back: threads, library kernels, memory, and the checks of numbers that it reads from tensors.
#pragma once

#include <chrono>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/span.h"
#include "runtime/contract/contract.h"
#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/prepared_constants.h"
#include "runtime/memory/host_bytes.h"
#include "runtime/program/output_allocator.h"
#include "toroid/program_abi.h"

namespace toroid {

class RuntimePool;

// Is told of the steps of a call, on the thread that makes it.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Before it runs. What this throws ends the call, and is thrown by it.
  virtual void begin_step(int32_t step) = 0;
  // The call has ended, without an error.
  virtual void end_call() = 0;
};

class RuntimeCallbacks {
 public:
  using Entry = int32_t(const ToroidRuntime*, const ToroidCall*);

  // `packed`: where packed weights are kept. `memory`: of temporaries; null: the process's. Both outlive this.
  RuntimeCallbacks(RuntimePool& pool, PreparedConstants& packed, const HostMemory* memory = nullptr);
  virtual ~RuntimeCallbacks() = default;
  RuntimeCallbacks(const RuntimeCallbacks&) = delete;
  RuntimeCallbacks& operator=(const RuntimeCallbacks&) = delete;

  // The state of one call that callbacks read and write.
  struct Call {
    const ToroidVariant& variant;
    CallSizes* sizes;          // ToroidCall::symbols are its numbers; null where the program reads no number
    OutputAllocator* outputs;  // gives memory to late ones
  };
  // From now on constants are others, and packed elsewhere: plans are made anew.
  void use_packed(PreparedConstants& packed);
  // Seconds that each step took in all runs so far, by its position in ToroidVariant::steps; empty unless compiled to be profiled.
  const std::vector<std::vector<double>>& step_times() const { return step_times_; }
  // Of the calls from now on; null: nobody. Not of programs for GPUs.
  void set_observer(StepObserver* observer) { observer_ = observer; }
  // Runs a program's entry. Throws what a callback had to say; else gives the entry's result.
  virtual int32_t run(Entry* entry, const ToroidCall& call, Call& state);

 protected:
  // What programs ask for: memory that lasts until it is released, outputs, library kernels. Here in this process's memory.
  virtual void* allocate(int64_t bytes);
  virtual void release(void* data);
  virtual void release_all();
  virtual void* output(int32_t position, const int64_t* sizes);
  virtual void call(const ToroidLibraryCall& call);
  // A step begins, which ends the one before; the call has ended.
  virtual void begin_step(int32_t step);
  virtual void end_steps();
  void add_step_time(int32_t step, double seconds);

  Call& call_state() { return *call_; }
  // What entries are run with.
  virtual const ToroidRuntime* table() { return &table_; }
  const ToroidRuntime& own_table() const { return table_; }

  // Called from generated code, which knows no exceptions: a failure is kept for run().
  template <class F>
  static auto guarded(const ToroidRuntime* runtime, decltype(std::declval<F>()()) failure, F f) {
    try {
      return f();
    } catch (...) {
      host_of(runtime).error_ = std::current_exception();
      return failure;
    }
  }
  static RuntimeCallbacks& host_of(const ToroidRuntime* runtime) { return *static_cast<RuntimeCallbacks*>(runtime->host); }

 private:
  struct Entries;

  RuntimePool& pool_;
  PreparedConstants* packed_;
  const HostMemory* memory_;
  struct SitesOfVariant {
    const ToroidVariant* variant;
    CallSites sites = {};
  };
  std::list<SitesOfVariant> sites_of_variants_;  // few; plans point to packed_
  CallSites* sites_ = nullptr;                   // of the variant that runs
  ToroidRuntime table_{};
  StepObserver* observer_ = nullptr;
  Call* call_ = nullptr;
  // Of the call that runs, in a profiled program. They are sorted by step when it has ended: a list for each step, appended to in between,
  // would take longer than what lies between the steps.
  struct BegunStep {
    int32_t step;
    std::chrono::steady_clock::time_point when;
  };
  std::vector<BegunStep> begun_steps_;
  std::vector<std::vector<double>> step_times_;
  std::mutex out_of_bounds_;  // the callback comes from several threads
  std::exception_ptr error_;  // of the callback that failed
  // A few at a time. Lists, since giving a block back must not need memory.
  std::list<HostBytes> used_;
  std::list<HostBytes> free_;  // kept for the next request
};

}  // namespace toroid
