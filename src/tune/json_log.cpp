// Written by hand: a JSON library would take longer to compile than the rest of the folder.
#include "tune/decision.h"

namespace toroid::tune {
namespace {

// In quotes. What is no printable ASCII, as messages may quote from anywhere, becomes '?'.
std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c >= ' ' && c < 127 ? c : '?';
  }
  return result + "\"";
}

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
                     json_string(to_string(decision.problem)), json_string(decision.choice), json_string(decision.hash),
                     json_string(to_string(decision.source)), decision.tuning_s, choices);
}

}  // namespace

std::string json_log(const std::vector<Decision>& decisions, const Identity& identity) {
  std::string problems;
  for (const Decision& decision : decisions) problems += (problems.empty() ? "\n  " : ",\n  ") + problem_json(decision);
  return fmt::format(R"({{"format": 1, "machine": {}, "isa": {}, "toolchain": {}, "problems": [{}]}})",
                     json_string(identity.machine), json_string(identity.isa), json_string(identity.toolchain), problems) +
         "\n";
}

}  // namespace toroid::tune
