#include "tune/tuner.h"

#include <limits>
#include <set>

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
bool fits_memory(const Question& question) {
  constexpr double kUsable = 0.5;
  return question.needed_bytes <= kUsable * static_cast<double>(total_memory_bytes());
}

Outcome* find(std::vector<Outcome>& outcomes, const std::string& name) {
  const auto found = std::find_if(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) { return outcome.choice == name; });
  return found == outcomes.end() ? nullptr : &*found;
}

Error nothing_usable(const Question& question, const std::vector<Outcome>& outcomes) {
  Error error(ErrorKind::Unsupported, fmt::format("no implementation of {} can be used", question.problem));
  for (const Outcome& outcome : outcomes) {
    error.at(fmt::format("{}: {}: {}", outcome.choice, to_string(outcome.standing), outcome.reason));
  }
  return error.help("choices in quarantine are tried again after 'toroid cache clear'; otherwise please report it");
}

Decision decision_of(const Question& question, std::vector<Outcome> outcomes, Source source, Outcome chosen) {
  Decision decision{.problem = question.problem, .choice = std::move(chosen.choice), .hash = std::move(chosen.hash), .source = source};
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
  if (!options_.worker.argv.empty()) workers_.push_back(std::make_unique<Worker>(options_.worker));
  for (const WorkerOptions& other : options_.others) workers_.push_back(std::make_unique<Worker>(other));
}

const Decision& Tuner::choose(const Problem& problem) {
  {
    const std::lock_guard deciding(deciding_);
    if (const auto known = by_problem_.find(to_string(problem)); known != by_problem_.end()) return *known->second;
  }
  return choose(question_about(problem));
}

Question Tuner::question_about(const Problem& problem) const {
  const ErrorContext context("choosing an implementation of {}", problem.family);
  return question_of(registry_, problem, machine_);
}

std::vector<const Decision*> Tuner::choose_all(const std::vector<Problem>& problems) {
  std::vector<Question> questions;
  for (const Problem& problem : problems) questions.push_back(question_about(problem));
  return choose_all(questions, std::numeric_limits<double>::infinity());
}

const Decision& Tuner::choose(const Question& question) { return *choose_all({question}, std::numeric_limits<double>::infinity())[0]; }

std::vector<const Decision*> Tuner::choose_all(const std::vector<Question>& questions, double limit_s,
                                               const std::function<void(const std::vector<size_t>&)>& begin) {
  const std::lock_guard deciding(deciding_);
  const Stopwatch watch;
  std::deque<Asked> all;
  std::vector<Asked*> unknown;
  std::vector<size_t> positions;
  std::set<std::string> asked_for;
  for (const Question& question : questions) {
    if (by_problem_.contains(question.problem) || !asked_for.insert(question.problem).second) continue;
    Asked& asked = all.emplace_back(ask(question));
    if (asked.decision) continue;
    unknown.push_back(&asked);
    positions.push_back(static_cast<size_t>(&question - questions.data()));
  }
  if (begin && !positions.empty()) {
    std::vector<size_t> own;
    for (size_t i = static_cast<size_t>(options_.part.number) - 1; i < positions.size(); i += static_cast<size_t>(options_.part.of))
      own.push_back(positions[i]);
    begin(own);
  }
  // Somebody else may be measuring one of them: two at once would disturb each other and waste the time of one.
  SharedWork work{.patience = kPatienceForOthers};
  for (const Asked* asked : unknown) work.keys.push_back(key_of(asked->question));
  work.find = [&](size_t i) {
    Asked& asked = *unknown[i];
    {
      const std::lock_guard noting(noting_);
      find_remembered(asked);
    }
    if (!asked.decision && watch.seconds() >= limit_s) decide_by_estimate(asked);
    return asked.decision.has_value();
  };
  work.make = [&](size_t i, size_t worker) {
    if (workers_.empty()) return decide_by_estimate(*unknown[i]);  // the one there was could not be started
    decide_by_measuring(*unknown[i], worker);
  };
  do_shared(cache_, work, options_.part, workers_.size());

  for (Asked& asked : all) by_problem_[asked.question.problem] = &decisions_.emplace_back(std::move(*asked.decision));
  std::vector<const Decision*> result;
  for (const Question& question : questions) result.push_back(by_problem_.at(question.problem));
  return result;
}

Tuner::Asked Tuner::ask(const Question& question) {
  const ErrorContext context("choosing an implementation of {}", question.family);
  Asked asked{.question = question};
  if (options_.lock) {
    asked.decision = locked(question);
    return asked;
  }
  asked.outcomes = entrants(question);
  const auto open = std::count_if(asked.outcomes.begin(), asked.outcomes.end(), may_compete);
  if (open == 0) throw nothing_usable(question, asked.outcomes);
  // In the order of the table: a copy, since sorting comes with the decision.
  std::vector<Outcome> ranked = asked.outcomes;
  sort_by_standing(ranked);
  if (open == 1) {
    ++counters_.only_one;
    asked.decision = decision_of(question, asked.outcomes, Source::OnlyOne, ranked.front());
    return asked;
  }
  if (fits_memory(question)) asked.names = worth_measuring(ranked, question.choices);
  find_remembered(asked);
  if (!asked.decision && asked.names.empty()) decide_by_estimate(asked);
  return asked;
}

void Tuner::find_remembered(Asked& asked) {
  std::optional<std::vector<Outcome>> found = remembered(key_of(asked.question), asked.outcomes, asked.names);
  if (!found) return;
  ++counters_.remembered;
  cache_.store().count("tuning results found");
  sort_by_standing(*found);
  const Outcome best = *best_of(*found, asked.question.choices, asked.question.least_gain);  // there is one: remembered() looked
  asked.decision = decision_of(asked.question, std::move(*found), Source::Remembered, best);
}

void Tuner::decide_by_estimate(Asked& asked) {
  const std::lock_guard noting(noting_);
  ++counters_.estimated;
  if (!asked.names.empty()) ++counters_.late;
  std::vector<Outcome> ranked = asked.outcomes;
  sort_by_standing(ranked);
  asked.decision = decision_of(asked.question, asked.outcomes, Source::Estimate, ranked.front());
}

void Tuner::decide_by_measuring(Asked& asked, size_t worker) {
  const Question& question = asked.question;
  const ErrorContext context("choosing an implementation of {}", question.family);
  note_faults(asked);
  const Stopwatch watch;
  if (question.prepare) leave_out(asked, question.prepare());
  measure_all(asked, worker);
  const double tuning_s = watch.seconds();
  const std::lock_guard noting(noting_);
  counters_.tuning_s += tuning_s;
  std::vector<Outcome> outcomes = std::move(asked.outcomes);
  sort_by_standing(outcomes);
  const Outcome* const best = best_of(outcomes, question.choices, question.least_gain);
  if (best == nullptr) {
    if (!workers_.empty()) throw nothing_usable(question, outcomes);
    ++counters_.estimated;  // no worker could be started, which was said
    const Outcome first = outcomes.front();
    asked.decision = decision_of(question, std::move(outcomes), Source::Estimate, first);
    return;
  }
  ++counters_.measured;
  cache_.store().count("problems tuned");
  cache_.put(key_of(question), outcomes_to_bytes(worth_keeping(outcomes)));
  const Outcome chosen = *best;
  asked.decision = decision_of(question, std::move(outcomes), Source::Measured, chosen);
  asked.decision->tuning_s = tuning_s;
}

// What did harm since the question was asked competes no more.
void Tuner::note_faults(Asked& asked) {
  const std::lock_guard noting(noting_);
  for (Outcome& outcome : asked.outcomes) {
    if (!may_compete(outcome)) continue;
    std::optional<std::string> fault = quarantine_.reason(asked.question.family, outcome.choice, outcome.hash);
    if (!fault) continue;
    outcome.standing = Standing::Quarantined;
    outcome.reason = std::move(*fault);
    std::erase(asked.names, outcome.choice);
  }
}

// What could not be made competes no more.
void Tuner::leave_out(Asked& asked, const std::map<std::string, std::string>& reasons) const {
  for (const auto& [name, reason] : reasons) {
    Outcome* const outcome = find(asked.outcomes, name);
    TOROID_CHECK(outcome != nullptr, "there is no choice '{}'", name);
    outcome->standing = Standing::Refused;
    outcome->reason = reason;
    std::erase(asked.names, name);
  }
}

// For this mode's budget a candidate may have come too late; another mode's may be enough.
std::vector<Outcome> Tuner::worth_keeping(std::vector<Outcome> outcomes) const {
  for (Outcome& outcome : outcomes) {
    if (options_.mode == Mode::Default && outcome.standing == Standing::OutOfTime) outcome.standing = Standing::NotTried;
  }
  return outcomes;
}

Decision Tuner::locked(const Question& question) {
  const ChoiceLock& lock = *options_.lock;
  const LockedChoice& wanted = lock.at(question.problem);
  std::vector<Outcome> outcomes = entrants(question);
  auto refuse = [&](std::string_view why) {
    return Error(ErrorKind::InvalidInput, fmt::format("{} takes '{}' for {}, which {}", lock.name(), wanted.choice, question.problem, why))
        .help("write the lock anew for this model, or compile without it");
  };
  const Outcome* chosen = find(outcomes, wanted.choice);
  if (chosen == nullptr) throw refuse("this version of toroid does not have");
  if (chosen->hash != wanted.hash) throw refuse("has changed since");
  if (!may_compete(*chosen)) throw refuse(fmt::format("may not be taken here: {}", chosen->reason));
  ++counters_.locked;
  return decision_of(question, outcomes, Source::Lock, *chosen);
}

// Every choice of the family, in the table's order: those that may compete as not tried yet.
std::vector<Outcome> Tuner::entrants(const Question& question) {
  std::vector<Outcome> outcomes;
  for (const Choice& choice : question.choices) {
    Outcome& outcome =
        outcomes.emplace_back(Outcome{.choice = choice.name, .hash = choice_hash(question.family, choice), .cost_s = choice.cost_s});
    if (choice.gate) {
      outcome.standing = Standing::GateClosed;
      outcome.reason = *choice.gate;
    } else if (std::optional<std::string> fault = quarantine_.reason(question.family, choice.name, outcome.hash)) {
      outcome.standing = Standing::Quarantined;
      outcome.reason = std::move(*fault);
    }
  }
  return outcomes;
}

CacheKey Tuner::key_of(const Question& question) const {
  std::vector<std::string> competitors;
  for (const Choice& choice : question.choices) {
    if (!choice.gate) competitors.push_back(choice.name + " " + choice_hash(question.family, choice));
  }
  KeyBuilder key("tuning", 1);
  key.add("problem", question.problem).add("choices", competitors).add("threads", int64_t{options_.measure.threads});
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
  if (workers_.empty() || (options_.mode == Mode::Default && counters_.tuning_s >= options_.budget_s)) return {};
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
void Tuner::measure_all(Asked& asked, size_t worker) {
  try {
    try_out(asked, asked.names, worker);
    std::vector<std::string> rest;
    for (const Outcome& outcome : asked.outcomes) {
      if (is_usable(outcome)) return;
      if (may_compete(outcome)) rest.push_back(outcome.choice);
    }
    if (!rest.empty()) try_out(asked, rest, worker);
  } catch (const Error& error) {
    if (options_.mode == Mode::Max) throw;
    log_warn("implementations are chosen by estimates, since they cannot be measured: {}", error.message());
    workers_.clear();  // in this mode there is one
  }
}

// As long as the reference itself fails, with the next that may be one.
void Tuner::try_out(Asked& asked, std::vector<std::string> names, size_t worker_number) {
  const Question& question = asked.question;
  std::vector<Outcome>& outcomes = asked.outcomes;
  Worker& worker = *workers_[worker_number];
  while (!names.empty()) {
    const auto reference = std::find_if(outcomes.begin(), outcomes.end(), may_compete);
    if (reference == outcomes.end()) return;
    if (std::find(names.begin(), names.end(), reference->choice) == names.end()) names.push_back(reference->choice);
    std::vector<Outcome> candidates;
    for (const std::string& name : names) candidates.push_back(*find(outcomes, name));
    std::stable_sort(candidates.begin(), candidates.end(), [](const Outcome& a, const Outcome& b) { return a.cost_s < b.cost_s; });

    const int generation = worker.generation();
    MeasureOptions options = options_.measure;
    if (options_.mode == Mode::Default) options.rounds.limit_s = std::min(options.rounds.limit_s, options_.budget_s - counters_.tuning_s);
    measure(question.trial.empty() ? question.problem : question.trial, reference->choice, candidates, worker, options);
    const std::lock_guard noting(noting_);
    counters_.workers_started += static_cast<uint64_t>(worker.generation() - generation);
    counters_.candidates_tried += candidates.size();
    names.clear();
    for (Outcome& candidate : candidates) {
      if (candidate.standing == Standing::Unchecked) {
        names.push_back(candidate.choice);
        continue;  // stays as if not tried
      }
      if (candidate.standing == Standing::Faulty || candidate.standing == Standing::Wrong) {
        quarantine_.add(question.problem, question.family, candidate.choice, candidate.hash, candidate.reason);
        ++counters_.candidates_quarantined;
        log_warn("{} '{}' is left out from now on: {}, for {}", question.family, candidate.choice, candidate.reason, question.problem);
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
  add(late, fmt::format("of these {} for want of time", late));
  add(only_one, fmt::format("{} with one choice", only_one));
  add(locked, fmt::format("{} locked", locked));
  add(candidates_quarantined, fmt::format("{} candidates quarantined", candidates_quarantined));
  return text;
}

}  // namespace toroid::tune
