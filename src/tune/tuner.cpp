#include "tune/tuner.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine/memory.h"
#include "support/log.h"
#include "tune/choice_hash.h"

namespace toroid::tune {
namespace {

constexpr auto kPatienceForOthers = std::chrono::seconds(30);  // who tune the same problem

bool may_compete(const Outcome& outcome) { return outcome.standing == Standing::NotTried; }

// A worker for which there is no memory would be ended by the machine, and a kernel would get the blame.
double needed_bytes(const Problem& problem) {
  double needed = 0;
  for (const OperandMeta& meta : problem.inputs) needed += static_cast<double>(meta.extent_bytes());
  for (const OperandMeta& meta : problem.outputs) needed += 2 * static_cast<double>(meta.extent_bytes());  // and the reference's
  for (const Problem& stage : problem.stages) needed += needed_bytes(stage);
  return needed;
}
bool fits_memory(const Problem& problem) {
  const double needed = needed_bytes(problem);
  constexpr double kUsable = 0.5;
  return needed <= kUsable * static_cast<double>(total_memory_bytes());
}

Outcome* find(std::vector<Outcome>& outcomes, const std::string& name) {
  const auto found = std::find_if(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) { return outcome.choice == name; });
  return found == outcomes.end() ? nullptr : &*found;
}

Error nothing_usable(const Problem& problem, const std::vector<Outcome>& outcomes) {
  Error error(ErrorKind::Unsupported, fmt::format("no implementation of {} can be used", to_string(problem)));
  for (const Outcome& outcome : outcomes) {
    error.at(fmt::format("{}: {}: {}", outcome.choice, to_string(outcome.standing), outcome.reason));
  }
  return error.help("choices in quarantine are tried again after 'toroid cache clear'; otherwise please report it");
}

Decision decision_of(const Problem& problem, std::vector<Outcome> outcomes, Source source, const Outcome& chosen) {
  Decision decision{.problem = problem, .choice = chosen.choice, .hash = chosen.hash, .source = source};
  sort_by_standing(outcomes);
  decision.outcomes = std::move(outcomes);
  return decision;
}

}  // namespace

Tuner::Tuner(const ChoiceRegistry& registry, Cache& cache, TunerOptions options)
    : registry_(registry),
      cache_(cache),
      options_(std::move(options)),
      machine_(model_of_this_machine(options_.measure.threads)),
      quarantine_(cache, options_.identity) {
  TOROID_CHECK(options_.mode == Mode::Default || !options_.worker.argv.empty(), "nothing can be measured without a worker's command");
  if (!options_.worker.argv.empty()) worker_.emplace(options_.worker);
}

const Decision& Tuner::choose(const Problem& problem) {
  const std::lock_guard deciding(deciding_);
  const Decision*& decision = by_problem_[to_string(problem)];
  if (decision == nullptr) decision = &decisions_.emplace_back(decide(problem));
  return *decision;
}

Decision Tuner::decide(const Problem& problem) {
  const ErrorContext context("choosing an implementation of {}", problem.family);
  const std::vector<Choice> choices = registry_.list_choices(problem, machine_);
  if (options_.lock) return locked(problem, choices);

  std::vector<Outcome> outcomes = entrants(problem, choices);
  const auto open = std::count_if(outcomes.begin(), outcomes.end(), may_compete);
  if (open == 0) throw nothing_usable(problem, outcomes);
  // In the order of the table: a copy, since sorting comes with the decision.
  std::vector<Outcome> ranked = outcomes;
  sort_by_standing(ranked);
  if (open == 1) {
    ++counters_.only_one;
    return decision_of(problem, outcomes, Source::OnlyOne, ranked.front());
  }

  const std::vector<std::string> names = fits_memory(problem) ? worth_measuring(ranked, choices) : std::vector<std::string>{};
  const CacheKey key = key_of(problem, choices);
  auto from_memory = [&]() -> std::optional<Decision> {
    std::optional<std::vector<Outcome>> found = remembered(key, outcomes, names);
    if (!found) return std::nullopt;
    ++counters_.remembered;
    cache_.store().count("tuning results found");
    sort_by_standing(*found);
    const Outcome best = *best_of(*found, choices);  // there is one: remembered() looked
    return decision_of(problem, std::move(*found), Source::Remembered, best);
  };
  if (std::optional<Decision> decision = from_memory()) return std::move(*decision);
  if (names.empty()) {
    ++counters_.estimated;
    return decision_of(problem, outcomes, Source::Estimate, ranked.front());
  }
  // Somebody else may be measuring it: two at once would disturb each other and waste the time of one.
  const CacheLease lease = cache_.acquire(key, kPatienceForOthers);
  if (std::optional<Decision> decision = from_memory()) return std::move(*decision);

  const Stopwatch watch;
  measure_all(problem, outcomes, names);
  const double tuning_s = watch.seconds();
  counters_.tuning_s += tuning_s;
  sort_by_standing(outcomes);
  const Outcome* const best = best_of(outcomes, choices);
  if (best == nullptr) {
    if (worker_) throw nothing_usable(problem, outcomes);
    ++counters_.estimated;  // no worker could be started, which was said
    return decision_of(problem, outcomes, Source::Estimate, outcomes.front());
  }
  ++counters_.measured;
  cache_.store().count("problems tuned");
  cache_.put(key, outcomes_to_bytes(worth_keeping(outcomes)));
  const Outcome chosen = *best;
  Decision decision = decision_of(problem, std::move(outcomes), Source::Measured, chosen);
  decision.tuning_s = tuning_s;
  return decision;
}

// For this mode's budget a candidate may have come too late; another mode's may be enough.
std::vector<Outcome> Tuner::worth_keeping(std::vector<Outcome> outcomes) const {
  for (Outcome& outcome : outcomes) {
    if (options_.mode == Mode::Default && outcome.standing == Standing::OutOfTime) outcome.standing = Standing::NotTried;
  }
  return outcomes;
}

Decision Tuner::locked(const Problem& problem, const std::vector<Choice>& choices) {
  const ChoiceLock& lock = *options_.lock;
  const LockedChoice& wanted = lock.at(problem);
  std::vector<Outcome> outcomes = entrants(problem, choices);
  auto refuse = [&](std::string_view why) {
    return Error(ErrorKind::InvalidInput,
                 fmt::format("{} takes '{}' for {}, which {}", lock.name(), wanted.choice, to_string(problem), why))
        .help("write the lock anew for this model, or compile without it");
  };
  const Outcome* chosen = find(outcomes, wanted.choice);
  if (chosen == nullptr) throw refuse("this version of toroid does not have");
  if (chosen->hash != wanted.hash) throw refuse("has changed since");
  if (!may_compete(*chosen)) throw refuse(fmt::format("may not be taken here: {}", chosen->reason));
  ++counters_.locked;
  return decision_of(problem, outcomes, Source::Lock, *chosen);
}

// Every choice of the family, in the table's order: those that may compete as not tried yet.
std::vector<Outcome> Tuner::entrants(const Problem& problem, const std::vector<Choice>& choices) {
  std::vector<Outcome> outcomes;
  for (const Choice& choice : choices) {
    Outcome& outcome =
        outcomes.emplace_back(Outcome{.choice = choice.name, .hash = choice_hash(problem.family, choice), .cost_s = choice.cost_s});
    if (choice.gate) {
      outcome.standing = Standing::GateClosed;
      outcome.reason = *choice.gate;
    } else if (std::optional<std::string> fault = quarantine_.reason(problem.family, choice.name, outcome.hash)) {
      outcome.standing = Standing::Quarantined;
      outcome.reason = std::move(*fault);
    }
  }
  return outcomes;
}

CacheKey Tuner::key_of(const Problem& problem, const std::vector<Choice>& choices) const {
  std::vector<std::string> competitors;
  for (const Choice& choice : choices) {
    if (!choice.gate) competitors.push_back(choice.name + " " + choice_hash(problem.family, choice));
  }
  KeyBuilder key("tuning", 1);
  key.add("problem", to_string(problem)).add("choices", competitors).add("threads", int64_t{options_.measure.threads});
  key.add("caches", options_.measure.cold ? "cold" : "warm");
  options_.identity.add_to(key);
  return key.finish();
}

// What was measured before, if it is enough for this mode and its best may still be used.
std::optional<std::vector<Outcome>> Tuner::remembered(const CacheKey& key, const std::vector<Outcome>& entrants,
                                                      const std::vector<std::string>& wanted) {
  const std::optional<std::string> bytes = cache_.get(key);
  std::optional<std::vector<Outcome>> found = bytes ? outcomes_of(*bytes) : std::nullopt;
  if (!found || found->size() != entrants.size()) return std::nullopt;
  bool has_best = false;
  for (Outcome& outcome : *found) {
    const auto entrant = std::find_if(entrants.begin(), entrants.end(), [&](const Outcome& e) { return e.choice == outcome.choice; });
    if (entrant == entrants.end()) return std::nullopt;
    const bool is_wanted = std::find(wanted.begin(), wanted.end(), outcome.choice) != wanted.end();
    if (options_.mode == Mode::Max && outcome.standing == Standing::NotTried && is_wanted) return std::nullopt;
    // A fault that showed since counts.
    if (!may_compete(*entrant)) outcome = *entrant;
    has_best = has_best || outcome.standing == Standing::Timed;
  }
  return has_best ? found : std::nullopt;
}

// The names of those to measure; empty when the estimate is to decide. `ranked`: the best first.
std::vector<std::string> Tuner::worth_measuring(const std::vector<Outcome>& ranked, const std::vector<Choice>& choices) const {
  if (!worker_ || (options_.mode == Mode::Default && counters_.tuning_s >= options_.budget_s)) return {};
  std::vector<std::string> names;
  for (const Outcome& outcome : ranked) {
    const bool is_own =
        std::any_of(choices.begin(), choices.end(), [&](const Choice& c) { return c.name == outcome.choice && !c.then_epilogue; });
    const bool is_close = outcome.cost_s <= options_.close * ranked.front().cost_s;
    if (may_compete(outcome) && (is_close || (options_.mode == Mode::Max && is_own))) names.push_back(outcome.choice);
  }
  return names.size() > 1 ? names : std::vector<std::string>{};
}

// Measures those of the names, and if all of them fail the others as well.
void Tuner::measure_all(const Problem& problem, std::vector<Outcome>& outcomes, const std::vector<std::string>& names) {
  try {
    try_out(problem, outcomes, names);
    std::vector<std::string> rest;
    for (const Outcome& outcome : outcomes) {
      if (is_usable(outcome)) return;
      if (may_compete(outcome)) rest.push_back(outcome.choice);
    }
    if (!rest.empty()) try_out(problem, outcomes, rest);
  } catch (const Error& error) {
    if (options_.mode == Mode::Max) throw;
    log_warn("implementations are chosen by estimates, since they cannot be measured: {}", error.message());
    worker_.reset();
  }
}

// As long as the reference itself fails, with the next that may be one.
void Tuner::try_out(const Problem& problem, std::vector<Outcome>& outcomes, std::vector<std::string> names) {
  while (!names.empty()) {
    const auto reference = std::find_if(outcomes.begin(), outcomes.end(), may_compete);
    if (reference == outcomes.end()) return;
    if (std::find(names.begin(), names.end(), reference->choice) == names.end()) names.push_back(reference->choice);
    std::vector<Outcome> candidates;
    for (const std::string& name : names) candidates.push_back(*find(outcomes, name));
    std::stable_sort(candidates.begin(), candidates.end(), [](const Outcome& a, const Outcome& b) { return a.cost_s < b.cost_s; });

    const int generation = worker_->generation();
    MeasureOptions options = options_.measure;
    if (options_.mode == Mode::Default) options.rounds.limit_s = std::min(options.rounds.limit_s, options_.budget_s - counters_.tuning_s);
    measure(problem, reference->choice, candidates, *worker_, options);
    counters_.workers_started += static_cast<uint64_t>(worker_->generation() - generation);
    counters_.candidates_tried += candidates.size();
    names.clear();
    for (Outcome& candidate : candidates) {
      if (candidate.standing == Standing::Unchecked) {
        names.push_back(candidate.choice);
        continue;  // stays as if not tried
      }
      if (candidate.standing == Standing::Faulty || candidate.standing == Standing::Wrong) {
        quarantine_.add(problem, candidate.choice, candidate.hash, candidate.reason);
        ++counters_.candidates_quarantined;
        log_warn("{} '{}' is left out from now on: {}, for {}", problem.family, candidate.choice, candidate.reason, to_string(problem));
      }
      *find(outcomes, candidate.choice) = std::move(candidate);
    }
  }
}

ChoiceLock Tuner::as_lock() const {
  ChoiceLock lock;
  for (const Decision& decision : decisions_) lock.set(decision.problem, {decision.choice, decision.hash});
  return lock;
}

TunerCounters Tuner::counters() const { return counters_; }

std::string TunerCounters::summary() const {
  std::string text = fmt::format("{} problems:", locked + only_one + estimated + remembered + measured);
  const char* separator = " ";
  auto add = [&](uint64_t count, const std::string& words) {
    if (count == 0) return;
    text += fmt::format("{}{}", separator, words);
    separator = ", ";
  };
  add(measured, fmt::format("{} measured in {:.2f} s ({} candidates)", measured, tuning_s, candidates_tried));
  add(remembered, fmt::format("{} remembered", remembered));
  add(estimated, fmt::format("{} by estimate", estimated));
  add(only_one, fmt::format("{} with one choice", only_one));
  add(locked, fmt::format("{} locked", locked));
  add(candidates_quarantined, fmt::format("{} candidates quarantined", candidates_quarantined));
  return text;
}

}  // namespace toroid::tune
