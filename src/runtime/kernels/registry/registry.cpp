#include "runtime/kernels/registry/registry.h"

#include <algorithm>

#include <unistd.h>

#include "base/affixes.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/families.h"
#include "runtime/kernels/registry/unfused_epilogue.h"

namespace toroid {
namespace {

// Writing the result and reading it again, for an epilogue that comes afterwards.
double epilogue_afterwards_s(const Problem& problem, const MachineModel& machine) {
  return machine.start_s + 2 * transfer_s(static_cast<double>(problem.outputs[0].extent_bytes()), machine);
}

template <class Row>
std::string names_of(Span<const Row> rows) {
  std::string names;
  for (const Row& row : rows) names += formatted("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

}  // namespace

MachineModel model_of_this_machine(int threads) {
  constexpr double kClockHz = 3e9, kVectorUnits = 2, kFlopsOfMultiplyAdd = 2;
  const double lanes = vector_set() == VectorSet::Avx512 ? 16 : vector_set() == VectorSet::Avx2 ? 8 : 4;
  static const auto cache_bytes = static_cast<double>(::sysconf(_SC_LEVEL3_CACHE_SIZE));
  MachineModel model = {/*threads=*/threads,
                        /*flops_per_s=*/threads * kClockHz * kVectorUnits * kFlopsOfMultiplyAdd * lanes,
                        /*bytes_per_s=*/1e10 * std::min(threads, 8),
                        /*cache_bytes=*/cache_bytes > 0 ? cache_bytes : 8e6};
  // Intel's last cache is far from each core, and a multiplication of pairs takes twice as long as one of float32. Products of 1 to 128
  // rows by constants take as long as reading at 15 GB/s and multiplying one after the other, in float32 and bfloat16 alike.
  static const bool is_of_intel = is_intel();
  if (is_of_intel) {
    model.reread = threads == 1 ? 0.9 : 1.2;
    model.pairs = 0.75;
    model.constants_speedup = 1.5;
    model.hidden = 0;
  }
  return model;
}

const KernelFamily& ChoiceRegistry::family(std::string_view name) const {
  for (const KernelFamily& family : families_) {
    if (family.name == name) return family;
  }
  fail(ErrorKind::InvalidOption, Help{formatted("the families are {}", names_of(families_))}, "no kernel has the family '{}'", name);
}

const KernelFamily& ChoiceRegistry::taking(const Problem& problem) const {
  const KernelFamily& family = this->family(problem.family);
  std::optional<std::string> fault = family.malformed(problem);
  if (!fault && problem.has_epilogue && !family.columns_dim) fault = "there is no epilogue of this kernel";
  if (fault) {
    throw Error(ErrorKind::InvalidOption, formatted("{} cannot have these operands: {}", family.name, *fault))
        .at(to_string(problem))
        .help("docs/tuning.md says how a problem is written");
  }
  return family;
}

std::vector<Choice> ChoiceRegistry::list_choices(const Problem& problem, const MachineModel& machine) const {
  const KernelFamily& family = taking(problem);
  std::vector<Choice> choices;
  auto add = [&](const Implementation& implementation, const Problem& own, bool then_epilogue) {
    Choice choice{/*name=*/std::string(implementation.name),
                  /*description=*/std::string(implementation.description),
                  /*version=*/1,
                  /*gate=*/{},
                  /*cost_s=*/0,
                  /*then_epilogue=*/then_epilogue};
    if (then_epilogue) {
      choice.name += kUnfusedEpilogue;
      choice.description += "; the epilogue afterwards";
    }
    choice.version = implementation.version;
    choice.gate = implementation.gate(own);
    if (!choice.gate) choice.cost_s = implementation.cost_s(own, machine) + (then_epilogue ? epilogue_afterwards_s(problem, machine) : 0);
    choices.push_back(std::move(choice));
  };
  for (const Implementation& implementation : family.implementations) add(implementation, problem, false);
  if (!problem.has_epilogue) return choices;
  Problem alone = problem;
  alone.has_epilogue = false;
  for (const Implementation& implementation : family.implementations) add(implementation, alone, true);
  return choices;
}

int64_t ChoiceRegistry::epilogue_columns(const Problem& problem) const {
  const int dim = *family(problem.family).columns_dim;
  const OperandMeta& out = problem.outputs[0];
  return dim < 0 ? out.size(dim) : out.sizes[static_cast<size_t>(dim)];
}

std::unique_ptr<const KernelPlan> ChoiceRegistry::plan(std::string_view family, std::string_view choice, const KernelCall& call) const {
  const KernelFamily& of = this->family(family);
  const Span<const Implementation> implementations = of.implementations;
  for (const Implementation& implementation : implementations) {
    if (implementation.name == choice) return implementation.plan(call);
  }
  if (ends_with(choice, kUnfusedEpilogue) && of.columns_dim) {
    const std::string_view alone = choice.substr(0, choice.size() - kUnfusedEpilogue.size());
    for (const Implementation& implementation : implementations) {
      if (implementation.name == alone) return plan_unfused_epilogue(implementation, *of.columns_dim, call);
    }
  }
  fail(ErrorKind::InvalidOption, Help{formatted("its choices are {}", names_of(implementations))}, "{} has no choice '{}'", family, choice);
}

ChoiceRegistry::Cheapest ChoiceRegistry::cheapest(const KernelFamily& family, const Problem& problem, const MachineModel& machine) const {
  Cheapest best;
  double least = 0;
  const auto consider = [&](const Problem& own, bool then_epilogue) {
    for (const Implementation& implementation : family.implementations) {
      if (implementation.needs_measuring || implementation.gate(own)) continue;
      const double cost = implementation.cost_s(own, machine) + (then_epilogue ? epilogue_afterwards_s(problem, machine) : 0);
      if (best.implementation != nullptr && cost >= least) continue;
      best = {&implementation, then_epilogue};
      least = cost;
    }
  };
  consider(problem, false);
  if (!problem.has_epilogue || best.implementation != nullptr) return best;
  Problem alone = problem;
  alone.has_epilogue = false;
  consider(alone, true);
  return best;
}

std::optional<std::string> ChoiceRegistry::cheapest_choice(const Problem& problem, const MachineModel& machine) const {
  const auto [implementation, then_epilogue] = cheapest(taking(problem), problem, machine);
  if (implementation == nullptr) return std::nullopt;
  return std::string(implementation->name) + std::string(then_epilogue ? kUnfusedEpilogue : "");
}

std::unique_ptr<const KernelPlan> ChoiceRegistry::cheapest_plan(std::string_view name, const KernelCall& call) const {
  const auto family = std::find_if(families_.begin(), families_.end(), [&](const KernelFamily& each) { return each.name == name; });
  if (family == families_.end()) return nullptr;
  const Problem problem = problem_of(std::string(name), call);
  if ((problem.has_epilogue && !family->columns_dim) || family->malformed(problem)) return nullptr;
  const auto [implementation, then_epilogue] = cheapest(*family, problem, model_of_this_machine(call.pool.threads()));
  if (implementation == nullptr) return nullptr;
  return then_epilogue ? plan_unfused_epilogue(*implementation, *family->columns_dim, call) : implementation->plan(call);
}

const ChoiceRegistry& runtime_choices() {
  static const std::vector<KernelFamily> families = [] {
    std::vector<KernelFamily> result;
    for (const LinkedKernel* const* each = toroid_linked_kernels; *each != nullptr; ++each) {
      if ((*each)->family != nullptr) result.push_back(*(*each)->family);
    }
    return result;
  }();
  static const ChoiceRegistry registry(families);
  return registry;
}

}  // namespace toroid
