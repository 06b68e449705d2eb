// Indented, for people read it too.
#include <fmt/format.h>

#include "support/text/json_writer.h"
#include "tune/decision.h"

namespace toroid::tune {
namespace {

std::string choice_json(const Outcome& outcome) {
  std::string json = fmt::format(R"({{"name": {}, "hash": {}, "standing": {}, "estimated_s": {})", json_string(outcome.choice),
                                 json_string(outcome.hash), json_string(to_string(outcome.standing)), outcome.cost_s);
  if (!outcome.reason.empty()) json += fmt::format(R"(, "reason": {})", json_string(outcome.reason));
  if (outcome.standing == Standing::Timed) {
    json += fmt::format(R"(, "median_s": {}, "fastest_s": {}, "slowest_s": {}, "rounds": {})", outcome.median_s, outcome.fastest_s,
                        outcome.slowest_s, outcome.rounds);
  }
  return json + "}";
}

std::string problem_json(const Decision& decision) {
  std::string choices;
  for (const Outcome& outcome : decision.outcomes) choices += (choices.empty() ? "\n   " : ",\n   ") + choice_json(outcome);
  return fmt::format(R"({{"problem": {}, "choice": {}, "hash": {}, "source": {}, "tuning_s": {}, "choices": [{}]}})",
                     json_string(decision.problem), json_string(decision.choice), json_string(decision.hash),
                     json_string(to_string(decision.source)), decision.tuning_s, choices);
}

}  // namespace

std::string json_log(const std::vector<Decision>& decisions, const Identity& identity) {
  std::string problems;
  for (const Decision& decision : decisions) problems += (problems.empty() ? "\n  " : ",\n  ") + problem_json(decision);
  return fmt::format(R"({{"format": 1, "machine": {}, "isa": {}, "toolchain": {}, "problems": [{}]}})", json_string(identity.machine),
                     json_string(identity.isa), json_string(identity.toolchain), problems) +
         "\n";
}

}  // namespace toroid::tune
