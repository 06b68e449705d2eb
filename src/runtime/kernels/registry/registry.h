// Several implementations of one library kernel, of which a compilation takes one: the registry that tuning chooses from.
//
// A family is what is to be computed, "matmul.f32"; an implementation is one way to do it. For a concrete problem each
// implementation becomes a choice, with the reason if it may not compete and an estimate of its time:
//
//   for (const Choice& choice : registry.list_choices(problem)) { … choice.gate, choice.cost_s … }
//   registry.plan("matmul.f32", "packed", call)->run(call);
//
// An implementation is a row of its family's table. The first that no gate holds back is the reference: the most general and
// plainest one, which results of others are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/problem.h"

namespace toroid {

// What estimates of time are made of. Only ratios between choices matter, so round numbers do.
struct MachineModel {
  int threads = 1;
  double flops_per_s = 1e9;  // of all threads, F32, at the widest vectors
  double bytes_per_s = 1e9;  // from and to memory, all threads together
  double cache_bytes = 1e6;  // what stays in the last cache from one kernel to the next
  double start_s = 2e-6;     // of a parallel loop
  double reread = 0.45;      // the time of another pass over what only the last cache holds, as a share of that of the first
  double pairs = 1.5;        // the speed of products of pairs of bfloat16 (AVX512_BF16), as a multiple of that of float32's
  // How many times as fast as from memory what the last cache holds is read; and constants, each of which is read once in a call.
  double cache_speedup = 4, constants_speedup = 4;
  double hidden = 1;  // the share of the shorter of multiplying in vectors and reading constants that the longer one hides
};
MachineModel model_of_this_machine(int threads);

// One way to compute a family's problems. Functions must be pure: equal problems, equal answers.
struct Implementation {
  std::string_view name;  // unique in its family, of letters, digits and '-'
  std::string_view description;
  int version = 1;  // raised when the kernel changes so that its measured times or its faults are of the past
  // Why it cannot compute this problem, or never should; nullopt when it may compete.
  std::optional<std::string> (*gate)(const Problem& problem);
  double (*cost_s)(const Problem& problem, const MachineModel& machine);
  // The plan of a call that passes the gate.
  std::unique_ptr<const KernelPlan> (*plan)(const KernelCall& call);
  // Taken only when it was measured: its estimate does not tell what it costs in a program.
  bool needs_measuring = false;
};

struct KernelFamily {
  std::string_view name;
  // What is wrong with a problem's operands and integers; nullopt when they are such as the kernels take. The other functions are
  // asked only then.
  std::optional<std::string> (*malformed)(const Problem& problem);
  // How many products or terms are summed into one element of the result: rounding errors grow with it.
  int64_t (*depth)(const Problem& problem);
  Span<const Implementation> implementations;
  // The dim of the result that an epilogue sees as columns (ToroidEpilogue), a negative one counted from the end; the others are the rows,
  // in the order of its memory. None: the kernel gives its result to no epilogue.
  std::optional<int> columns_dim = std::nullopt;
};

// An implementation beside a concrete problem. Where the problem has an epilogue, each is there twice: as it gives its result to the
// epilogue, block by block, and, behind all of these, as the whole product first and the epilogue afterwards (unfused_epilogue.h).
struct Choice {
  std::string name;
  std::string description;
  int version = 1;  // of the implementation
  std::optional<std::string> gate = {};
  double cost_s = 0;  // 0 where the gate is closed
  bool then_epilogue = false;
};

class ChoiceRegistry {
 public:
  // The tables live as long as the registry.
  explicit ChoiceRegistry(Span<const KernelFamily> families) : families_(families) {}

  Span<const KernelFamily> families() const { return families_; }
  // Throws Error{InvalidOption} that lists the families when there is none of this name; so do the others.
  const KernelFamily& family(std::string_view name) const;
  // In the order of the table. Throws Error{InvalidOption} also for a malformed problem.
  std::vector<Choice> list_choices(const Problem& problem, const MachineModel& machine) const;
  int64_t depth(const Problem& problem) const { return family(problem.family).depth(problem); }
  // Throws Error{InvalidOption} also when the family has no such choice, and what the kernel throws. The call must pass the gate.
  std::unique_ptr<const KernelPlan> plan(std::string_view family, std::string_view choice, const KernelCall& call) const;
  // The plan of the choice that has the lowest estimate; null where no family takes the call.
  std::unique_ptr<const KernelPlan> cheapest_plan(std::string_view family, const KernelCall& call) const;
  // Its name: what mode default takes. None where all gates are closed. Throws as list_choices.
  std::optional<std::string> cheapest_choice(const Problem& problem, const MachineModel& machine) const;
  // Of the result of a problem with an epilogue, as that sees it.
  int64_t epilogue_columns(const Problem& problem) const;

 private:
  // The family, which takes the problem. Throws as list_choices.
  const KernelFamily& taking(const Problem& problem) const;
  struct Cheapest {
    const Implementation* implementation = nullptr;  // null: none may compete
    bool then_epilogue = false;
  };
  // Of a problem that is not malformed.
  Cheapest cheapest(const KernelFamily& family, const Problem& problem, const MachineModel& machine) const;

  Span<const KernelFamily> families_;
};

// The kernels of runtime/kernels/registry/library.h.
const ChoiceRegistry& runtime_choices();

}  // namespace toroid
