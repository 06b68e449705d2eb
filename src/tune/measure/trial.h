// One problem with tensors, on which choices are tried: the worker's side of tuning.
//
// Inputs are random and may only be read; all tensors lie between guard pages (guarded_tensor.h). Of a chain, what passes from one stage to the
// next is such a tensor too.
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

namespace toroid::tune {

class Trial {
 public:
  // Makes the tensors and computes the result that others are compared with. Throws Error: of memory, of a name that the registry
  // does not have, or what the kernel throws.
  Trial(const ChoiceRegistry& registry, Problem problem, std::string_view reference, int threads, uint64_t seed);

  struct Check {
    std::optional<std::string> fault;  // "output 0: element 17 is 3.5, expected 3.4 …"; nullopt when the result is right
    double seconds = 0;                // of the second run: the first also pays for what is set up once
  };
  // Both throw what the kernel throws.
  Check check(std::string_view choice);
  // Seconds of one run, after one that is not counted. The runs are timed in up to eight parts, of which the quickest tells:
  // others were interrupted. `cold`: before each run the caches are emptied, and each is a part.
  double time_s(std::string_view choice, uint64_t repetitions, bool cold);

 private:
  // A call, the problem's or one of its stages.
  struct Part {
    std::vector<ToroidOperand> inputs, outputs;
    std::optional<ToroidEpilogue> epilogue = {};  // stores what it gets: a kernel pays for giving its result away
  };
  // `image`: the first input, which the stage before makes; null: it is made like the others.
  void add_part(const Problem& call, const GuardedTensor* image);
  KernelCall call_of(const Problem& call, const Part& part);
  void run(std::string_view choice);
  std::vector<std::reference_wrapper<const GuardedTensor>> results() const;
  std::optional<std::string> fault_of_results() const;

  const ChoiceRegistry& registry_;
  Problem problem_;
  int64_t depth_;
  RuntimePool pool_;
  uint64_t seed_;
  std::deque<GuardedTensor> inputs_, outputs_;    // outputs of all stages, one each
  std::deque<Part> parts_;                        // the problem, or its stages
  std::vector<std::vector<std::byte>> expected_;  // of the last part
  std::map<std::string, std::unique_ptr<const KernelPlan>> plans_;
  PreparedConstants prepared_;  // as in a program that runs for long: what is made of constants is made in the first run
};

}  // namespace toroid::tune
