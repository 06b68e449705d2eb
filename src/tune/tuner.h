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
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/shared_work.h"
#include "runtime/kernels/registry/registry.h"
#include "tune/decision.h"
#include "tune/identity.h"
#include "tune/lock.h"
#include "tune/measure/measure.h"
#include "tune/measure/worker.h"
#include "tune/quarantine.h"
#include "tune/question.h"

namespace toroid::tune {

enum class Mode {
  Default,  // estimates decide, but where they are close, as long as the budget lasts
  Max,  // every implementation that may compete is measured, and where its epilogue could come afterwards, that too if the estimate is close
};

struct TunerOptions {
  Mode mode = Mode::Default;
  WorkerOptions worker = {};               // argv empty: nothing is measured; not with Max
  std::vector<WorkerOptions> others = {};  // further workers, for Tuner::choose_all: one a GPU
  MeasureOptions measure = {};
  double budget_s = 0.8;  // Default: for measuring all problems together
  double close = 1.5;     // what is measured for its estimate: those whose estimate is at most so many times the best one
  std::optional<ChoiceLock> lock = {};
  Part part = {};  // of several processes with a common cache, which problems this one begins with
  Identity identity = identity_of_this_machine();
};

struct TunerCounters {
  // Distinct problems, by the source of their choice.
  uint64_t locked = 0, only_one = 0, estimated = 0, remembered = 0, measured = 0;
  uint64_t late = 0;  // of those estimated: the time was up
  uint64_t candidates_tried = 0;
  uint64_t candidates_quarantined = 0;
  uint64_t workers_started = 0;
  double tuning_s = 0;  // of all workers together

  std::string summary() const;  // "12 problems: 3 measured in 1.20 s (8 candidates), 7 remembered, 2 with one choice"
};

// Safe to use from several threads; a worker tries one problem at a time, so that measurements do not disturb each other.
class Tuner {
 public:
  // The registry and the cache live longer.
  Tuner(const ChoiceRegistry& registry, Cache& cache, TunerOptions options = {});

  // The same for an equal problem. Lives as long as the tuner. Throws Error{InvalidOption} for a problem that the registry does
  // not know, Error{Unsupported} with every choice's reason when none can be used, Error{InvalidInput} when the lock has none or
  // one that does not fit, and in mode Max what Worker::ask throws.
  const Decision& choose(const Problem& problem);
  // The same, whatever the choices are.
  const Decision& choose(const Question& question);
  // Of several, by all workers at once, each with the next one. A problem that would be begun after `limit_s` goes by its estimate, which
  // is not remembered. `begin` is told beforehand which of the questions will be measured, by their positions: of several processes those
  // of this one's share. It may measure others too.
  std::vector<const Decision*> choose_all(const std::vector<Question>& questions, double limit_s,
                                          const std::function<void(const std::vector<size_t>&)>& begin = {});
  std::vector<const Decision*> choose_all(const std::vector<Problem>& problems);

  // Of distinct problems, in the order in which they were first asked for. Not while another thread chooses.
  std::vector<Decision> decisions() const { return {decisions_.begin(), decisions_.end()}; }
  std::string log() const { return json_log(decisions(), options_.identity); }
  // What a compilation with TunerOptions::lock would need to choose the same.
  ChoiceLock as_lock() const;
  TunerCounters counters() const;

 private:
  // A question on its way.
  struct Asked {
    const Question& question;
    std::vector<Outcome> outcomes = {};   // of all choices, in their order
    std::vector<std::string> names = {};  // of those to measure
    std::optional<Decision> decision = {};
  };
  Question question_about(const Problem& problem) const;
  Asked ask(const Question& question);  // with a decision where nothing has to be measured
  void find_remembered(Asked& asked);
  void note_faults(Asked& asked);
  void decide_by_measuring(Asked& asked, size_t worker);
  void decide_by_estimate(Asked& asked);
  Decision locked(const Question& question);
  std::vector<Outcome> entrants(const Question& question);
  std::vector<Outcome> worth_keeping(std::vector<Outcome> outcomes) const;
  CacheKey key_of(const Question& question) const;
  std::optional<std::vector<Outcome>> remembered(const CacheKey& key, const std::vector<Outcome>& entrants,
                                                 const std::vector<std::string>& wanted);
  std::vector<std::string> worth_measuring(const std::vector<Outcome>& ranked, const std::vector<Choice>& choices) const;
  void leave_out(Asked& asked, const std::map<std::string, std::string>& reasons) const;
  void measure_all(Asked& asked, size_t worker);
  void try_out(Asked& asked, std::vector<std::string> names, size_t worker);

  const ChoiceRegistry& registry_;
  Cache& cache_;
  TunerOptions options_;
  MachineModel machine_;
  Quarantine quarantine_;
  std::vector<std::unique_ptr<Worker>> workers_;  // none: nothing can be measured
  std::mutex deciding_;                           // a call of choose or choose_all
  std::mutex noting_;                             // what the threads of choose_all share: counters_, quarantine_, cache_
  std::deque<Decision> decisions_;
  std::map<std::string, const Decision*> by_problem_;
  TunerCounters counters_;
};

}  // namespace toroid::tune
