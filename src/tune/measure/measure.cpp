#include "tune/measure/measure.h"

#include <fmt/format.h>

namespace toroid::tune {
namespace {

Standing standing_after(const Fault& fault) { return fault.by_candidate ? Standing::Faulty : Standing::Refused; }

// The problem in a worker that may be replaced from one request to the next.
class Session {
 public:
  Session(const std::string& problem, const std::string& reference, Worker& worker, const MeasureOptions& options)
      : preparation_{.action = Action::Prepare,
                     .problem = problem,
                     .choice = reference,
                     .seed = options.seed,
                     .threads = static_cast<uint64_t>(options.threads)},
        worker_(worker),
        options_(options) {}

  // What is known of a candidate when the reference failed: of the reference itself, how.
  void explain(Outcome& candidate) const {
    const bool is_reference = candidate.choice == preparation_.choice;
    candidate.standing = is_reference ? reference_standing_ : Standing::Unchecked;
    candidate.reason = is_reference ? reference_fault_ : fmt::format("the reference '{}' {}", preparation_.choice, reference_fault_);
  }

  // nullopt when the reference cannot be computed any more.
  std::optional<Reply> ask(const Request& request) {
    if (!reference_fault_.empty()) return std::nullopt;
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (worker_.generation() != prepared_ && !prepare()) return std::nullopt;
      Reply reply = worker_.ask(request, options_.result_timeout);
      // A process that ended between two requests was replaced by one that knows nothing of the problem.
      if (std::holds_alternative<Fault>(reply) || worker_.generation() == prepared_) return reply;
    }
    reference_fault_ = "leaves a worker that does not stay alive";
    return std::nullopt;
  }

 private:
  bool prepare() {
    const Reply reply = worker_.ask(preparation_, options_.result_timeout);
    if (const Fault* fault = std::get_if<Fault>(&reply)) {
      reference_fault_ = fault->reason;
      reference_standing_ = standing_after(*fault);
    } else if (const Answer& answer = std::get<Answer>(reply); answer.verdict != Verdict::Done) {
      reference_fault_ = answer.message;
      reference_standing_ = Standing::Refused;
    }
    prepared_ = worker_.generation();
    return reference_fault_.empty();
  }

  Request preparation_;
  Worker& worker_;
  const MeasureOptions& options_;
  int prepared_ = -1;            // the worker's generation that knows the problem
  std::string reference_fault_;  // empty while it does nothing wrong
  Standing reference_standing_ = Standing::Faulty;
};

// The seconds that were asked for; nullopt, with the candidate's standing, when there are none.
std::optional<double> seconds_of(const std::optional<Reply>& reply, const Session& session, Outcome& candidate) {
  if (!reply) {
    session.explain(candidate);
    return std::nullopt;
  }
  if (const Fault* fault = std::get_if<Fault>(&*reply)) {
    candidate.standing = standing_after(*fault);
    candidate.reason = fault->reason;
    return std::nullopt;
  }
  const Answer& answer = std::get<Answer>(*reply);
  if (answer.verdict == Verdict::Done) return answer.seconds;
  candidate.standing = answer.verdict == Verdict::Wrong ? Standing::Wrong : Standing::Refused;
  candidate.reason = answer.message;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::Timed: return "timed";
    case Standing::GateClosed: return "gate closed";
    case Standing::Quarantined: return "quarantined";
    case Standing::NotTried: return "not tried";
    case Standing::OutOfTime: return "out of time";
    case Standing::Refused: return "refused";
    case Standing::Wrong: return "wrong";
    case Standing::Faulty: return "faulty";
    case Standing::Unchecked: return "unchecked";
  }
  return "";
}

void measure(const std::string& problem, const std::string& reference, std::vector<Outcome>& candidates, Worker& worker,
             const MeasureOptions& options) {
  Session session(problem, reference, worker, options);
  struct Right {
    Outcome* candidate;
    double estimate_s;
  };
  std::vector<Right> right;
  for (Outcome& candidate : candidates) {
    const auto reply = session.ask({.action = Action::Check, .choice = candidate.choice});
    const std::optional<double> estimate_s = seconds_of(reply, session, candidate);
    if (estimate_s) right.push_back({&candidate, *estimate_s});
  }
  if (!options.cold) {
    std::erase_if(right, [&](const Right& each) {
      return !seconds_of(session.ask({.action = Action::Provide, .choice = each.candidate->choice}), session, *each.candidate);
    });
  }
  std::vector<Contestant> contestants;
  for (const auto& [checked, estimate_s] : right) {
    auto run_s = [&session, &candidate = *checked, &options](int repetitions) {
      const Request request{.action = Action::Time,
                            .choice = candidate.choice,
                            .repetitions = static_cast<uint64_t>(repetitions),
                            .cold = options.cold ? uint64_t{1} : 0};
      return seconds_of(session.ask(request), session, candidate);
    };
    contestants.push_back({run_s, estimate_s});
  }
  RoundOptions rounds = options.rounds;
  constexpr int kMostColdRuns = 3;  // emptying the caches takes longer than most kernels
  if (options.cold) rounds.most_repetitions = std::min(rounds.most_repetitions, kMostColdRuns);
  const std::vector<RoundTimes> times = time_in_rounds(contestants, rounds);
  for (size_t i = 0; i < right.size(); ++i) {
    if (times[i].failed) continue;  // its standing says why
    Outcome& candidate = *right[i].candidate;
    candidate.standing = times[i].rounds > 0 ? Standing::Timed : Standing::OutOfTime;
    if (times[i].rounds == 0) candidate.reason = "the time for this problem was up";
    candidate.median_s = times[i].median_s;
    candidate.fastest_s = times[i].fastest_s;
    candidate.slowest_s = times[i].slowest_s;
    candidate.rounds = times[i].rounds;
  }
}

}  // namespace toroid::tune
