#include "explain/pairs.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "support/text/byte_size.h"

namespace toroid::cli {
namespace {

// Where a computation is, by what it writes: "step 3", or "before the first call".
class StepFinder {
 public:
  explicit StepFinder(const schedule::Schedule& schedule) {
    for (size_t s = 0; s < schedule.steps.size(); ++s) {
      for (schedule::BufferId id : schedule::writes_of(schedule.steps[s])) steps_.emplace(id, s);
    }
  }
  std::optional<size_t> find(const std::vector<schedule::BufferId>& results) const {
    for (schedule::BufferId id : results) {
      if (const auto found = steps_.find(id); found != steps_.end()) return found->second;
    }
    return std::nullopt;
  }

 private:
  std::map<schedule::BufferId, size_t> steps_;
};

// Decisions about the same operators in the same steps: an operator such as softmax is several loops.
struct Pair {
  const schedule::FusionDecision* decision;
  std::optional<size_t> from, to;    // steps
  std::vector<std::string> reasons;  // all that differ
};

void add_pair(std::vector<Pair>& pairs, const schedule::FusionDecision& decision, std::optional<size_t> from, std::optional<size_t> to) {
  const auto known = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
    return pair.decision->producer == decision.producer && pair.decision->consumer == decision.consumer && pair.from == from &&
           pair.to == to;
  });
  if (known == pairs.end()) {
    pairs.push_back({&decision, from, to, {decision.reason}});
  } else if (std::find(known->reasons.begin(), known->reasons.end(), decision.reason) == known->reasons.end()) {
    known->reasons.push_back(decision.reason);
  }
}

std::string place_text(std::optional<size_t> step) { return step ? fmt::format("step {}", *step) : "once, before the first call"; }

// Those in which both operators are computed.
std::vector<size_t> steps_with(const Graph& graph, const std::vector<schedule::Step>& steps, std::string_view a, std::string_view b) {
  std::vector<size_t> found;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<ProvenanceId>& from = schedule::provenance_of(steps[i]);
    const auto has = [&](std::string_view name) {
      return std::any_of(from.begin(), from.end(), [&](ProvenanceId id) { return is_called(graph.provenance(id), name); });
    };
    if (has(a) && has(b)) found.push_back(i);
  }
  return found;
}

}  // namespace

// Since each step needs them and none stores them: those of which the core-level graph has element-wise work alone, so that they are never
// spread over steps.
std::map<size_t, std::vector<size_t>> recomputed(const Graph& graph, const std::vector<schedule::Step>& steps) {
  enum class Work { None, Elementwise, Other };
  std::vector<Work> work(graph.provenances().size(), Work::None);
  for (const Node& node : graph.nodes()) {
    Work& known = work[static_cast<size_t>(node.provenance)];
    const bool is_elementwise = std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<Cast>(node.op);
    const bool moves = std::holds_alternative<Expand>(node.op) || std::holds_alternative<Permute>(node.op) ||
                       std::holds_alternative<Reshape>(node.op) || std::holds_alternative<Slice>(node.op) ||
                       std::holds_alternative<Full>(node.op) || std::holds_alternative<Constant>(node.op);
    if (is_elementwise && known == Work::None) known = Work::Elementwise;
    if (!is_elementwise && !moves) known = Work::Other;
  }
  std::map<size_t, std::vector<size_t>> places;
  for (size_t s = 0; s < steps.size(); ++s) {
    for (ProvenanceId id : schedule::provenance_of(steps[s])) {
      if (work[static_cast<size_t>(id)] == Work::Elementwise) places[static_cast<size_t>(id)].push_back(s);
    }
  }
  std::erase_if(places, [](const auto& place) { return place.second.size() < 2; });
  return places;
}

void print_recomputed(const Graph& graph, const std::vector<schedule::Step>& steps_of_program, const Filter& filter) {
  bool is_first = true;
  for (const auto& [id, steps] : recomputed(graph, steps_of_program)) {
    const Provenance& from = graph.provenances()[id];
    if (from.op.empty() || !filter.takes(from)) continue;
    if (is_first) fmt::print("\ncomputed more than once, in each step that reads the result, instead of being stored:\n");
    is_first = false;
    fmt::print("  {} ({}) is computed {}: in steps {}\n", from.name, from.op,
               steps.size() == 2 ? "twice" : fmt::format("{} times", steps.size()), fmt::join(steps, steps.size() == 2 ? " and " : ", "));
  }
}

void print_counts(const Graph& graph, const schedule::Schedule& schedule, const std::vector<schedule::FusionDecision>& decisions,
                  const Filter& filter) {
  int64_t fused = 0, apart = 0;
  std::map<std::string, int> reasons;
  for (const schedule::FusionDecision& each : decisions) {
    if (!filter.takes(graph.provenance(each.producer), graph.provenance(each.consumer))) continue;
    (each.is_fused ? fused : apart) += 1;
    if (!each.is_fused) ++reasons[each.reason];
  }
  fmt::print("\n{} of {} pairs of producer and consumer {} one step, {} {} not{}\n", fused, fused + apart, fused == 1 ? "is" : "are", apart,
             apart == 1 ? "is" : "are", apart > 0 ? ":" : "");
  for (const auto& [reason, count] : reasons) fmt::print("  {:4}  {}\n", count, reason);
  if (filter.is_set() && fused + apart == 0) {
    const std::vector<size_t> joint =
        filter.between.empty() ? std::vector<size_t>() : steps_with(graph, schedule.steps, filter.between[0], filter.between[1]);
    if (filter.between.empty()) {
      fmt::print("the operator's result is not read by another step, or it is part of a larger expression: see its step above\n");
    } else if (!joint.empty()) {
      fmt::print(
          "both are computed within step{} {}, where one is part of the other's expression or loop: nothing between them is stored\n",
          joint.size() == 1 ? "" : "s", fmt::join(joint, ", "));
    } else {
      fmt::print("neither reads the other's result directly: try --op with each of them\n");
    }
  }
}

void print_pairs(const Graph& graph, const schedule::Schedule& schedule, const std::vector<schedule::FusionDecision>& decisions,
                 const Filter& filter, bool all) {
  const StepFinder finder(schedule);
  std::vector<Pair> pairs;
  for (const schedule::FusionDecision& each : decisions) {
    const Provenance &producer = graph.provenance(each.producer), &consumer = graph.provenance(each.consumer);
    const bool is_free = each.reason == schedule::kComputedOnce;
    const bool wanted = filter.is_set() ? filter.takes(producer, consumer) : all || (!each.is_fused && !is_free);
    if (wanted) add_pair(pairs, each, finder.find(each.producer_results), finder.find(each.consumer_results));
  }
  for (const Pair& pair : pairs) {
    const schedule::FusionDecision& each = *pair.decision;
    fmt::print("\nproducer  {}: {}\nconsumer  {}: {}\n  {}, {}: {}\n", place_text(pair.from),
               operator_text(graph.provenance(each.producer)), place_text(pair.to), operator_text(graph.provenance(each.consumer)),
               each.is_fused ? "one step" : "two steps", byte_size_text(static_cast<uint64_t>(each.bytes)),
               fmt::join(pair.reasons, pair.reasons.size() == 1 ? "" : ";\n    and for another of the consumer's loops: "));
  }
}

nlohmann::ordered_json pairs_json(const Graph& graph, const schedule::Schedule& schedule,
                                  const std::vector<schedule::FusionDecision>& decisions) {
  const StepFinder finder(schedule);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const schedule::FusionDecision& each : decisions) {
    const Provenance &producer = graph.provenance(each.producer), &consumer = graph.provenance(each.consumer);
    json.push_back({{"producer", short_text(producer)},
                    {"consumer", short_text(consumer)},
                    {"bytes", each.bytes},
                    {"fused", each.is_fused},
                    {"reason", each.reason}});
    const auto add = [&](const char* role, const Provenance& of, std::optional<size_t> step) {
      nlohmann::ordered_json& place = json.back()[fmt::format("{}_place", role)];
      place = {{"op", of.op}, {"module", of.module}, {"source", of.source}};
      if (step) place["step"] = *step;
    };
    add("producer", producer, finder.find(each.producer_results));
    add("consumer", consumer, finder.find(each.consumer_results));
  }
  return json;
}

}  // namespace toroid::cli
