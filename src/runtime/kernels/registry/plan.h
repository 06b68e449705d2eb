// A library call worked out: which algorithm computes it, how it is cut into tasks, where its packed weights are. Made when a program makes
// the call for the first time with these sizes; later calls run it with their pointers and work out nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/kernels/registry/library.h"

namespace toroid {

class KernelPlan {
 public:
  virtual ~KernelPlan() = default;
  // `call`: as the one that the plan was made for, but for where data lie that are no constants, the epilogue's too. Several threads may
  // run a plan at once. Throws what the kernel throws.
  virtual void run(const KernelCall& call) const = 0;
};

// A plan that works out everything in each call.
template <class F>
std::unique_ptr<const KernelPlan> plan_that_runs(F f) {
  class Plan final : public KernelPlan {
   public:
    explicit Plan(F f) : f_(std::move(f)) {}
    void run(const KernelCall& call) const override { f_(call); }

   private:
    F f_;
  };
  return std::make_unique<const Plan>(std::move(f));
}

// The same of a function, as tables of implementations have it.
template <void (*kRun)(const KernelCall& call)>
std::unique_ptr<const KernelPlan> plan_running(const KernelCall&) {
  return plan_that_runs(kRun);
}

// The plan of a call: "matmul" by the implementation of the lowest estimate, "matmul#packed" by the named one (registry.h), "chain",
// "sort", "library.NAME". A call whose results have no elements has a plan that does nothing. Throws Error where there is no such kernel or
// implementation.
std::unique_ptr<const KernelPlan> plan_library_kernel(std::string_view name, const KernelCall& call);

// The plans of a program's library calls, each made in the first call with its sizes. One call of the program at a time.
class CallSites {
 public:
  // `site`: the number of the call in the program, from 0 on. `has_fixed_sizes`: all its sizes, strides, integers and numbers are the same
  // in every call. The pool, and constants' data, are the same as before.
  void run(int32_t site, bool has_fixed_sizes, std::string_view name, const KernelCall& call);

  static constexpr size_t kMostPlans = 64;  // of one site; those of sizes that came long ago are forgotten

 private:
  struct Planned {
    std::vector<int64_t> sizes;  // empty where they are fixed
    std::vector<double> numbers;
    std::unique_ptr<const KernelPlan> plan;
  };
  std::vector<std::vector<Planned>> sites_;  // of each site, the plan that ran last first
};

}  // namespace toroid
