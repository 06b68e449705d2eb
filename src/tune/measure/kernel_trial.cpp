#include "tune/measure/kernel_trial.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/machine/memory.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/registry/machine_limits.h"
#include "tune/measure/rounds.h"
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

// Of all copies of constants together, with what choices make of them.
constexpr double kMostSecondsOfPlans = 1;
int64_t most_bytes_of_copies() {
  constexpr uint64_t kMost = uint64_t{512} << 20;
  return static_cast<int64_t>(std::min(kMost, total_memory_bytes() / 8));
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
  Part& part = copies_[0].emplace_back();
  for (const OperandMeta& meta : call.inputs) {
    if (image != nullptr && part.inputs.empty()) {
      part.inputs.push_back(image->operand());
      continue;
    }
    GuardedTensor& input = inputs_.emplace_back(meta, fmt::format("input {}", inputs_.size()));
    input.fill_random(seed_ + inputs_.size());
    input.forbid_writing();
    part.inputs.push_back(input.operand());
    if (meta.is_constant) constant_bytes_ += meta.extent_bytes();
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

void KernelTrial::with_call(size_t copy, const std::function<void(const KernelCall&)>& f) {
  const Parts& parts = copies_[copy];
  if (problem_.stages.empty()) return f(call_of(problem_, parts[0]));
  std::vector<KernelCall> stages;
  for (size_t i = 0; i < parts.size(); ++i) stages.push_back(call_of(problem_.stages[i], parts[i]));
  f(call_of_chain(pool_, stages));
}

const KernelPlan& KernelTrial::plan_of(std::string_view choice, size_t copy, const KernelCall& call) {
  auto found = plans_.find(choice);
  if (found == plans_.end()) found = plans_.try_emplace(std::string(choice)).first;
  Plans& plans = found->second;
  if (copy >= plans.size()) plans.resize(copy + 1);
  if (plans[copy] == nullptr) {
    const Stopwatch watch;
    plans[copy] = registry_.plan(problem_.family, choice, call);
    planned_s_ += watch.seconds();
  }
  return *plans[copy];
}

void KernelTrial::run(std::string_view choice, size_t copy) {
  with_call(copy, [&](const KernelCall& call) { plan_of(choice, copy, call).run(call); });
}

void KernelTrial::add_copy() {
  Parts parts = copies_[0];
  for (Part& part : parts) {
    for (ToroidOperand& operand : part.inputs) {
      if (!operand.is_constant) continue;
      const auto original =
          std::find_if(inputs_.begin(), inputs_.end(), [&](const GuardedTensor& input) { return input.operand().data == operand.data; });
      GuardedTensor& input = inputs_.emplace_back(original->meta(), fmt::format("a copy of {}", original->name()));
      std::copy(original->bytes().begin(), original->bytes().end(), input.bytes().begin());
      input.forbid_writing();
      operand = input.operand();
    }
  }
  copies_.push_back(std::move(parts));
}

// Together more than the last cache holds, in the leanest form, so far as memory and time allow; what another copy takes is known from the
// plans of the choices that were checked. More than so many are of no use: constants that are so small take little of a call's time.
size_t KernelTrial::number_of_copies() const {
  if (constant_bytes_ == 0) return 1;
  constexpr int64_t kMost = 128;
  const int64_t filling = bytes_of_last_cache() / constant_bytes_ + 1;
  const int64_t fitting = most_bytes_of_copies() / (constant_bytes_ + prepared_.bytes());
  const double in_time = kMostSecondsOfPlans / planned_s_;
  return static_cast<size_t>(std::clamp(in_time, 1.0, static_cast<double>(std::clamp<int64_t>(std::min(filling, fitting), 1, kMost))));
}

// Of a choice that another worker checked nothing was known: there may turn out to be fewer copies, for all choices.
void KernelTrial::provide(std::string_view choice) {
  if (num_copies_ == 0) num_copies_ = number_of_copies();
  for (size_t copy = 0; copy < num_copies_; ++copy) {
    if (copy == copies_.size()) add_copy();
    with_call(copy, [&](const KernelCall& call) { plan_of(choice, copy, call); });
    const int64_t bytes = static_cast<int64_t>(copies_.size()) * constant_bytes_ + prepared_.bytes();
    if (bytes > most_bytes_of_copies() || planned_s_ > 2 * kMostSecondsOfPlans) num_copies_ = copy + 1;
  }
}

// What passes between stages need not be there afterwards.
std::vector<std::reference_wrapper<const GuardedTensor>> KernelTrial::results() const {
  return {outputs_.end() - static_cast<ptrdiff_t>(copies_[0].back().outputs.size()), outputs_.end()};
}

std::optional<std::string> KernelTrial::fault_of_results() const {
  for (const GuardedTensor& output : outputs_) {
    if (std::optional<std::string> trespass = output.trespass()) return trespass;
  }
  const auto results = this->results();
  for (size_t i = 0; i < results.size(); ++i) {
    const GuardedTensor& output = results[i];
    const OperandMeta& meta = output.meta();
    const bool has_rows = meta.is_contiguous() && !meta.sizes.empty();
    const auto difference = difference_of_results(meta.dtype, depth_, output.bytes(), expected_[i], std::nullopt,
                                                  has_rows ? static_cast<size_t>(meta.sizes.back()) : 0);
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
  if (!cold) provide(choice);  // a worker that took another's place has nothing yet
  // All choices go round the same copies, so that none finds warm what another just used.
  const auto run_next = [&] {
    next_copy_ = cold ? 0 : (next_copy_ + 1) % num_copies_;
    run(choice, next_copy_);
  };
  if (!cold) run_next();  // whoever ran before left the caches to itself
  std::vector<double> parts_s;
  for (uint64_t done = 0; done < std::max<uint64_t>(repetitions, 1); done += runs_in_part) {
    if (cold) empty_caches();
    const Stopwatch watch;
    for (uint64_t i = 0; i < runs_in_part; ++i) run_next();
    parts_s.push_back(watch.seconds() / static_cast<double>(runs_in_part));
  }
  return median_undisturbed(std::move(parts_s));
}

}  // namespace toroid::tune
