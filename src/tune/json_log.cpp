#include <nlohmann/json.hpp>

#include "tune/decision.h"

namespace toroid::tune {

std::string json_log(const std::vector<Decision>& decisions, const Identity& identity) {
  nlohmann::ordered_json log = {{"format", 1},
                                {"machine", identity.machine},
                                {"isa", identity.isa},
                                {"toolchain", identity.toolchain},
                                {"problems", nlohmann::ordered_json::array()}};
  for (const Decision& decision : decisions) {
    nlohmann::ordered_json problem = {
        {"problem", to_string(decision.problem)}, {"choice", decision.choice},     {"hash", decision.hash},
        {"source", to_string(decision.source)},   {"tuning_s", decision.tuning_s}, {"choices", nlohmann::ordered_json::array()}};
    for (const Outcome& outcome : decision.outcomes) {
      nlohmann::ordered_json choice = {{"name", outcome.choice},
                                       {"hash", outcome.hash},
                                       {"standing", to_string(outcome.standing)},
                                       {"estimated_s", outcome.cost_s}};
      if (!outcome.reason.empty()) choice["reason"] = outcome.reason;
      if (outcome.standing == Standing::Timed) {
        choice["median_s"] = outcome.median_s;
        choice["fastest_s"] = outcome.fastest_s;
        choice["slowest_s"] = outcome.slowest_s;
        choice["rounds"] = outcome.rounds;
      }
      problem["choices"].push_back(std::move(choice));
    }
    log["problems"].push_back(std::move(problem));
  }
  return log.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace toroid::tune
