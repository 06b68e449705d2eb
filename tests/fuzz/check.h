// Compares what the compiler makes of a random program with the eager reference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "fuzz/program_text.h"

namespace toroid::fuzz {

struct Failure {
  std::string kind;  // "evaluator", "optimised", "plain", "forms", "draws", or "error in …": what a smaller program must fail with too
  std::string message;
};

struct CheckOptions {
  bool plain = true;     // compile without optimisations too
  int optimization = 3;  // the C++ compiler's -O level
  int threads = 2;
  bool forms = true;     // compile with each form of kernels pinned too, if any has two
  bool variants = true;  // beside the general form, ones for the sizes of the first run and the last
};

struct CheckResult {
  std::optional<Failure> failure;
  int64_t compared = 0;  // elements
  int64_t skipped = 0;   // elements about which the reference is not sure
  int kernels = 0;
  std::string refusal;  // why the reference refused a run, if it did
};

// All runs are calls of one compiled program, in order, so buffers keep their values from one to the next.
// The program runs on the evaluator (after decomposition), compiled with all optimisations, and compiled with none. Runs
// that the reference refuses (an index out of bounds at that size, a number that fits no integer) do not count.
CheckResult check(CompileSession& session, const Program& program, const CheckOptions& options);

// What differs between `outputs`, which `compiled` gave for these arguments, and the reference of the program, by the same rule; nothing
// where they agree. `run` has the sizes; weights and buffers hold zeros. Throws Error where the reference refuses the program.
std::optional<std::string> difference_from_reference(const Program& program, const Run& run, const std::vector<HostTensor>& arguments,
                                                     const toroid::Program& compiled, const std::vector<HostTensor>& outputs);

}  // namespace toroid::fuzz
