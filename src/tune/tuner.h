// Problem to choice: what a compilation asks for each library call.
//
//   Tuner tuner(runtime_choices(), session.cache(), {.mode = Mode::Max, .worker = {.argv = own_tuning_worker()}});
//   const Decision& decision = tuner.choose(problem);        // run_choice(problem.family, decision.choice, call)
//
// In this order: the lock, if there is one, says it; of one choice that may compete there is nothing to choose; what was measured
// before, on such a machine with these kernels, is remembered; else choices are ranked by their estimates, some are measured in a
// worker process, and the quickest of those that compute the reference's result wins. docs/tuning.md has the rest.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "runtime/kernels/registry/registry.h"
#include "tune/decision.h"
#include "tune/identity.h"
#include "tune/lock.h"
#include "tune/measure/measure.h"
#include "tune/measure/worker.h"
#include "tune/quarantine.h"

namespace toroid::tune {

enum class Mode {
  Default,  // estimates decide, but where they are close, as long as the budget lasts
  Max,  // every implementation that may compete is measured, and where its epilogue could come afterwards, that too if the estimate is close
};

struct TunerOptions {
  Mode mode = Mode::Default;
  WorkerOptions worker = {};  // argv empty: nothing is measured; not with Max
  MeasureOptions measure = {};
  double budget_s = 0.8;  // Default: for measuring all problems together
  double close = 1.5;     // what is measured for its estimate: those whose estimate is at most so many times the best one
  std::optional<ChoiceLock> lock = {};
  Identity identity = identity_of_this_machine();
};

struct TunerCounters {
  // Distinct problems, by the source of their choice.
  uint64_t locked = 0, only_one = 0, estimated = 0, remembered = 0, measured = 0;
  uint64_t candidates_tried = 0;
  uint64_t candidates_quarantined = 0;
  uint64_t workers_started = 0;
  double tuning_s = 0;

  std::string summary() const;  // "12 problems: 3 measured in 1.20 s (8 candidates), 7 remembered, 2 with one choice"
};

// Safe to use from several threads; one problem is decided at a time, so that measurements do not disturb each other.
class Tuner {
 public:
  // The registry and the cache live longer.
  Tuner(const ChoiceRegistry& registry, Cache& cache, TunerOptions options = {});

  // The same for an equal problem. Lives as long as the tuner. Throws Error{InvalidOption} for a problem that the registry does
  // not know, Error{Unsupported} with every choice's reason when none can be used, Error{InvalidInput} when the lock has none or
  // one that does not fit, and in mode Max what Worker::ask throws.
  const Decision& choose(const Problem& problem);

  // Of distinct problems, in the order in which they were first asked for. Not while another thread chooses.
  std::vector<Decision> decisions() const { return {decisions_.begin(), decisions_.end()}; }
  std::string log() const { return json_log(decisions(), options_.identity); }
  // What a compilation with TunerOptions::lock would need to choose the same.
  ChoiceLock as_lock() const;
  TunerCounters counters() const;

 private:
  Decision decide(const Problem& problem);
  Decision locked(const Problem& problem, const std::vector<Choice>& choices);
  std::vector<Outcome> entrants(const Problem& problem, const std::vector<Choice>& choices);
  std::vector<Outcome> worth_keeping(std::vector<Outcome> outcomes) const;
  CacheKey key_of(const Problem& problem, const std::vector<Choice>& choices) const;
  std::optional<std::vector<Outcome>> remembered(const CacheKey& key, const std::vector<Outcome>& entrants,
                                                 const std::vector<std::string>& wanted);
  std::vector<std::string> worth_measuring(const std::vector<Outcome>& ranked, const std::vector<Choice>& choices) const;
  void measure_all(const Problem& problem, std::vector<Outcome>& outcomes, const std::vector<std::string>& names);
  void try_out(const Problem& problem, std::vector<Outcome>& outcomes, std::vector<std::string> names);

  const ChoiceRegistry& registry_;
  Cache& cache_;
  TunerOptions options_;
  MachineModel machine_;
  Quarantine quarantine_;
  std::optional<Worker> worker_;  // none: nothing can be measured
  std::mutex deciding_;
  std::deque<Decision> decisions_;
  std::map<std::string, const Decision*> by_problem_;
  TunerCounters counters_;
};

}  // namespace toroid::tune
