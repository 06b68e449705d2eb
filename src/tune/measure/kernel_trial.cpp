#include "tune/measure/kernel_trial.h"

#include <unistd.h>

#include <limits>

#include <fmt/format.h>

#include "base/clock.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "tune/measure/same_result.h"

namespace toroid::tune {
namespace {

// Reads and writes more than the caches hold. Its own memory is made once.
void empty_caches() {
  static std::vector<uint8_t> walked = [] {
    constexpr size_t kLeast = size_t{16} << 20, kMost = size_t{128} << 20;
    const long last_level_bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    return std::vector<uint8_t>(std::clamp(2 * static_cast<size_t>(std::max(last_level_bytes, 0L)), kLeast, kMost));
  }();
  constexpr size_t kLineBytes = 64;
  for (size_t at = 0; at < walked.size(); at += kLineBytes) ++walked[at];
}

}  // namespace

TrialMaker trials_of_kernels(const ChoiceRegistry& registry) {
  return [&registry](const Request& request) -> std::unique_ptr<Trial> {
    return std::make_unique<KernelTrial>(registry, parse_problem(request.problem), request.choice, static_cast<int>(request.threads),
                                         request.seed);
  };
}

KernelTrial::KernelTrial(const ChoiceRegistry& registry, Problem problem, std::string_view reference, int threads, uint64_t seed)
    : registry_(registry), problem_(std::move(problem)), depth_(registry.depth(problem_)), pool_(threads), seed_(seed) {
  if (problem_.stages.empty()) add_part(problem_, nullptr);
  for (const Problem& stage : problem_.stages) add_part(stage, outputs_.empty() ? nullptr : &outputs_.back());
  run(reference);
  for (const GuardedTensor& output : results()) expected_.emplace_back(output.bytes().begin(), output.bytes().end());
}

void KernelTrial::add_part(const Problem& call, const GuardedTensor* image) {
  Part& part = parts_.emplace_back();
  for (const OperandMeta& meta : call.inputs) {
    if (image != nullptr && part.inputs.empty()) {
      part.inputs.push_back(image->operand());
      continue;
    }
    GuardedTensor& input = inputs_.emplace_back(meta, fmt::format("input {}", inputs_.size()));
    input.fill_random(seed_ + inputs_.size());
    input.forbid_writing();
    part.inputs.push_back(input.operand());
  }
  for (const OperandMeta& meta : call.outputs) {
    GuardedTensor& output = outputs_.emplace_back(meta, fmt::format("output {}", outputs_.size()));
    part.outputs.push_back(output.operand());
  }
  if (!call.has_epilogue) return;
  part.epilogue = store_as(call.outputs[0].dtype, part.outputs[0].data, registry_.epilogue_columns(call));
  part.outputs[0].data = nullptr;  // as in a program: a kernel that writes it all the same is found out
}

KernelCall KernelTrial::call_of(const Problem& call, const Part& part) {
  return {pool_, part.inputs, part.outputs, call.integers, call.numbers, part.epilogue ? &*part.epilogue : nullptr, &prepared_};
}

void KernelTrial::run(std::string_view choice) {
  const auto run = [&](const KernelCall& call) {
    std::unique_ptr<const KernelPlan>& plan = plans_[std::string(choice)];
    if (plan == nullptr) plan = registry_.plan(problem_.family, choice, call);
    plan->run(call);
  };
  if (problem_.stages.empty()) return run(call_of(problem_, parts_[0]));
  std::vector<KernelCall> stages;
  for (size_t i = 0; i < parts_.size(); ++i) stages.push_back(call_of(problem_.stages[i], parts_[i]));
  run(call_of_chain(pool_, stages));
}

// What passes between stages need not be there afterwards.
std::vector<std::reference_wrapper<const GuardedTensor>> KernelTrial::results() const {
  return {outputs_.end() - static_cast<ptrdiff_t>(parts_.back().outputs.size()), outputs_.end()};
}

std::optional<std::string> KernelTrial::fault_of_results() const {
  for (const GuardedTensor& output : outputs_) {
    if (std::optional<std::string> trespass = output.trespass()) return trespass;
  }
  const auto results = this->results();
  for (size_t i = 0; i < results.size(); ++i) {
    const GuardedTensor& output = results[i];
    const auto difference = difference_of_results(output.meta().dtype, depth_, output.bytes(), expected_[i]);
    if (difference) return fmt::format("output {}: {}", outputs_.size() - results.size() + i, *difference);
  }
  return std::nullopt;
}

Trial::Check KernelTrial::check(std::string_view choice) {
  // NaN in every float: what is not written is seen.
  for (const GuardedTensor& output : outputs_) std::fill(output.bytes().begin(), output.bytes().end(), std::byte{0xff});
  run(choice);
  if (std::optional<std::string> fault = fault_of_results()) return {.fault = std::move(fault)};
  const Stopwatch watch;
  run(choice);
  const double seconds = watch.seconds();
  return {.fault = fault_of_results(), .seconds = seconds};
}

double KernelTrial::time_s(std::string_view choice, uint64_t repetitions, bool cold) {
  constexpr uint64_t kParts = 8;
  const uint64_t runs_in_part = cold ? 1 : std::max<uint64_t>(repetitions / kParts, 1);
  double quickest_s = std::numeric_limits<double>::infinity();
  if (!cold) run(choice);  // whoever ran before left the caches to itself
  for (uint64_t done = 0; done < repetitions; done += runs_in_part) {
    if (cold) empty_caches();
    const Stopwatch watch;
    for (uint64_t i = 0; i < runs_in_part; ++i) run(choice);
    quickest_s = std::min(quickest_s, watch.seconds() / static_cast<double>(runs_in_part));
  }
  return quickest_s;
}

}  // namespace toroid::tune
