#include "tune/trial.h"

#include <unistd.h>

#include <limits>

#include "support/clock.h"
#include "tune/same_result.h"

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

Trial::Trial(const ChoiceRegistry& registry, Problem problem, std::string_view reference, int threads, uint64_t seed)
    : registry_(registry), problem_(std::move(problem)), depth_(registry.depth(problem_)), pool_(threads) {
  for (const OperandMeta& meta : problem_.inputs) {
    GuardedTensor& input = inputs_.emplace_back(meta, fmt::format("input {}", inputs_.size()));
    input.fill_random(seed + inputs_.size());
    input.forbid_writing();
    input_operands_.push_back(input.operand());
  }
  for (const OperandMeta& meta : problem_.outputs) {
    GuardedTensor& output = outputs_.emplace_back(meta, fmt::format("output {}", outputs_.size()));
    output_operands_.push_back(output.operand());
  }
  if (problem_.has_epilogue) {
    const int64_t columns = registry.family(problem_.family).epilogue_columns(problem_);
    epilogue_.emplace(output_operands_[0].data, problem_.outputs[0].dtype, columns);
    output_operands_[0].data = nullptr;  // as in a program: a kernel that writes it all the same is found out
  }
  run(reference);
  for (const GuardedTensor& output : outputs_) expected_.emplace_back(output.bytes().begin(), output.bytes().end());
}

void Trial::run(std::string_view choice) {
  const ToroidEpilogue* const epilogue = epilogue_ ? &epilogue_->abi() : nullptr;
  registry_.run_choice(problem_.family, choice,
                       {pool_, input_operands_, output_operands_, problem_.integers, problem_.numbers, epilogue, &prepared_});
}

std::optional<std::string> Trial::fault_of_results() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (std::optional<std::string> trespass = outputs_[i].trespass()) return trespass;
    const auto difference = difference_of_results(outputs_[i].meta().dtype, depth_, outputs_[i].bytes(), expected_[i]);
    if (difference) return fmt::format("output {}: {}", i, *difference);
  }
  return std::nullopt;
}

Trial::Check Trial::check(std::string_view choice) {
  // NaN in every float: what is not written is seen.
  for (const GuardedTensor& output : outputs_) std::fill(output.bytes().begin(), output.bytes().end(), std::byte{0xff});
  run(choice);
  if (std::optional<std::string> fault = fault_of_results()) return {.fault = std::move(fault)};
  const Stopwatch watch;
  run(choice);
  const double seconds = watch.seconds();
  return {.fault = fault_of_results(), .seconds = seconds};
}

double Trial::time_s(std::string_view choice, uint64_t repetitions, bool cold) {
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
