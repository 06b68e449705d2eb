#include "runtime/choices.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include "runtime/choice_families.h"
#include "runtime/vector_sets.h"
#include "support/error.h"
#include "support/hash.h"

namespace toroid {
namespace {

std::string hash_of(const KernelFamily& family, const Implementation& implementation) {
  std::string text = fmt::format("{}\n{}\n{}\n", family.name, implementation.name, implementation.version);
  for (const ChoiceParameter& parameter : implementation.parameters) text += fmt::format("{} = {}\n", parameter.name, parameter.value);
  return sha256(text).hex().substr(0, 16);
}

template <class Row>
std::string names_of(std::span<const Row> rows) {
  std::string names;
  for (const Row& row : rows) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

}  // namespace

MachineModel model_of_this_machine(int threads) {
  constexpr double kClockHz = 3e9, kVectorUnits = 2, kFlopsOfMultiplyAdd = 2;
  const double lanes = vector_set() == VectorSet::Avx512 ? 16 : vector_set() == VectorSet::Avx2 ? 8 : 4;
  const long cache_bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return {.threads = threads,
          .flops_per_s = threads * kClockHz * kVectorUnits * kFlopsOfMultiplyAdd * lanes,
          .bytes_per_s = 1e10 * std::min(threads, 8),
          .cache_bytes = cache_bytes > 0 ? static_cast<double>(cache_bytes) : 8e6};
}

const KernelFamily& ChoiceRegistry::family(std::string_view name) const {
  for (const KernelFamily& family : families_) {
    if (family.name == name) return family;
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("no kernel has the family '{}'", name))
      .help(fmt::format("the families are {}", names_of(families_)));
}

std::vector<Choice> ChoiceRegistry::list_choices(const Problem& problem, const MachineModel& machine) const {
  const KernelFamily& family = this->family(problem.family);
  std::optional<std::string> fault = family.malformed(problem);
  if (!fault && problem.has_epilogue && family.epilogue_columns == nullptr) fault = "there is no epilogue of this kernel";
  if (fault) {
    throw Error(ErrorKind::InvalidOption, fmt::format("{} cannot have these operands: {}", family.name, *fault))
        .at(to_string(problem))
        .help("docs/tuning.md says how a problem is written");
  }
  std::vector<Choice> choices;
  for (const Implementation& implementation : family.implementations) {
    Choice choice{.name = std::string(implementation.name), .description = std::string(implementation.description)};
    for (const auto& [name, value] : implementation.parameters) choice.parameters.emplace_back(name, value);
    choice.hash = hash_of(family, implementation);
    choice.gate = implementation.gate(problem);
    if (!choice.gate) choice.cost_s = implementation.cost_s(problem, machine);
    choices.push_back(std::move(choice));
  }
  return choices;
}

void ChoiceRegistry::run_choice(std::string_view family, std::string_view choice, const KernelCall& call) const {
  const std::span<const Implementation> implementations = this->family(family).implementations;
  for (const Implementation& implementation : implementations) {
    if (implementation.name == choice) return implementation.run(call, implementation.parameters);
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("{} has no choice '{}'", family, choice))
      .help(fmt::format("its choices are {}", names_of(implementations)));
}

const ChoiceRegistry& runtime_choices() {
  static const KernelFamily families[] = {matmul_family(),       matmul_bf16_family(),      matmul_f16_family(),
                                         matmul_int8_family(),  matmul_int4_family(),      matmul_bytes_family(),
                                         convolution_family(),  convolution_bf16_family(), chain_family(),
                                         attention_family(),    attention_bf16_family()};
  static const ChoiceRegistry registry(families);
  return registry;
}

}  // namespace toroid
