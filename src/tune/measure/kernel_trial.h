// Choices that are kernels of the runtime.
//
// Inputs are random and may only be read; all tensors lie between guard pages (guarded_tensor.h). Of a chain, what passes from one stage to
// the next is such a tensor too.
//
// In a network a call finds its weights in memory: other layers were in the caches since. So the trial has several copies of the call's
// constants, each with what kernels make of it, and runs that are timed take them in turn.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernels/registry/registry.h"
#include "tune/measure/guarded_tensor.h"
#include "tune/measure/trial.h"

namespace toroid::tune {

// Of the kernels of a registry, which lives as long.
TrialMaker trials_of_kernels(const ChoiceRegistry& registry);

class KernelTrial final : public Trial {
 public:
  KernelTrial(const ChoiceRegistry& registry, Problem problem, std::string_view reference, int threads, uint64_t seed);

  Check check(std::string_view choice) override;
  // Makes the copies of constants, which are as many for all choices, and the choice's plan for each.
  void provide(std::string_view choice) override;
  // The runs, after one that is not counted, are timed in up to eight parts, of which the one in the middle tells: others were interrupted,
  // or found more in the caches than a program does. With `cold` each run is a part.
  double time_s(std::string_view choice, uint64_t repetitions, bool cold) override;

 private:
  // A call, the problem's or one of its stages.
  struct Part {
    std::vector<ToroidOperand> inputs, outputs;
    std::optional<ToroidEpilogue> epilogue = {};  // stores what it gets: a kernel pays for giving its result away
  };
  using Plans = std::vector<std::unique_ptr<const KernelPlan>>;  // of the first copies
  using Parts = std::vector<Part>;                               // the problem, or its stages
  // `image`: the first input, which the stage before makes; null: it is made like the others.
  void add_part(const Problem& call, const GuardedTensor* image);
  void add_copy();
  size_t number_of_copies() const;
  void with_call(size_t copy, const std::function<void(const KernelCall&)>& f);
  const KernelPlan& plan_of(std::string_view choice, size_t copy, const KernelCall& call);
  KernelCall call_of(const Problem& call, const Part& part);
  void run(std::string_view choice, size_t copy = 0);
  std::vector<std::reference_wrapper<const GuardedTensor>> results() const;
  std::optional<std::string> fault_of_results() const;

  const ChoiceRegistry& registry_;
  Problem problem_;
  int64_t depth_;
  RuntimePool pool_;
  uint64_t seed_;
  std::deque<GuardedTensor> inputs_, outputs_;         // outputs of all stages, one each
  std::vector<Parts> copies_ = std::vector<Parts>(1);  // they differ in their constants' data
  std::vector<std::vector<std::byte>> expected_;       // of the last part
  std::map<std::string, Plans, std::less<>> plans_;
  PreparedConstants prepared_;  // as in a program that runs for long: what is made of constants is made in the first run
  int64_t constant_bytes_ = 0;  // of a copy
  double planned_s_ = 0;        // what all plans so far took
  size_t num_copies_ = 0;       // that are taken in turn; 0: nothing was timed yet
  size_t next_copy_ = 0;
};

}  // namespace toroid::tune
