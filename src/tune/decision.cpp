#include "tune/decision.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/file/framing.h"

namespace toroid::tune {
namespace {

// Lower comes first.
int rank_of(Standing standing) {
  switch (standing) {
    case Standing::Timed: return 0;
    case Standing::NotTried:
    case Standing::OutOfTime: return 1;
    default: return 2;
  }
}

void append_double(std::string& bytes, double number) { append_number(bytes, std::bit_cast<uint64_t>(number)); }

}  // namespace

bool is_usable(const Outcome& outcome) { return outcome.standing == Standing::Timed || outcome.standing == Standing::OutOfTime; }

std::string_view to_string(Source source) {
  switch (source) {
    case Source::Lock: return "lock";
    case Source::OnlyOne: return "only one";
    case Source::Estimate: return "estimate";
    case Source::Measured: return "measured";
    case Source::Remembered: return "remembered";
  }
  return "";
}

const Outcome* Decision::find(std::string_view name) const {
  for (const Outcome& outcome : outcomes) {
    if (outcome.choice == name) return &outcome;
  }
  return nullptr;
}

double Decision::run_s() const {
  const Outcome* const outcome = find(choice);
  if (outcome == nullptr) return 0;
  return outcome->standing == Standing::Timed ? outcome->median_s : outcome->cost_s;
}

void sort_by_standing(std::vector<Outcome>& outcomes) {
  std::stable_sort(outcomes.begin(), outcomes.end(), [](const Outcome& a, const Outcome& b) {
    const int rank_a = rank_of(a.standing), rank_b = rank_of(b.standing);
    if (rank_a != rank_b) return rank_a < rank_b;
    return rank_a == 0 ? a.median_s < b.median_s : rank_a == 1 && a.cost_s < b.cost_s;
  });
}

const Outcome* best_of(const std::vector<Outcome>& outcomes, const std::vector<Choice>& choices, double least_gain) {
  constexpr double kWorthMemory = 0.97;
  auto comes_afterwards = [&](const Outcome& outcome) {
    return std::any_of(choices.begin(), choices.end(), [&](const Choice& c) { return c.name == outcome.choice && c.then_epilogue; });
  };
  const auto best = std::find_if(outcomes.begin(), outcomes.end(), is_usable);
  if (best == outcomes.end()) return nullptr;
  const auto reference = std::find_if(choices.begin(), choices.end(), [](const Choice& choice) { return !choice.gate; });
  for (const Outcome& other : outcomes) {
    const bool is_reference = reference != choices.end() && other.choice == reference->name && other.standing == Standing::Timed;
    if (is_reference && best->standing == Standing::Timed && other.median_s < least_gain * best->median_s) return &other;
  }
  if (best->standing != Standing::Timed || !comes_afterwards(*best)) return &*best;
  for (const Outcome& other : outcomes) {
    const bool is_close = other.standing == Standing::Timed && kWorthMemory * other.median_s <= best->median_s;
    if (is_close && !comes_afterwards(other)) return &other;
  }
  return &*best;
}

std::string outcomes_to_bytes(const std::vector<Outcome>& outcomes) {
  std::string bytes;
  for (const Outcome& outcome : outcomes) {
    append_sized(bytes, outcome.choice);
    append_sized(bytes, outcome.hash);
    append_sized(bytes, outcome.reason);
    append_number(bytes, static_cast<uint64_t>(outcome.standing));
    append_number(bytes, static_cast<uint64_t>(outcome.rounds));
    for (double number : {outcome.cost_s, outcome.median_s, outcome.fastest_s, outcome.slowest_s}) append_double(bytes, number);
  }
  return bytes;
}

std::optional<std::vector<Outcome>> outcomes_of(std::string_view bytes) {
  std::vector<Outcome> outcomes;
  while (!bytes.empty()) {
    Outcome& outcome = outcomes.emplace_back();
    for (std::string* text : {&outcome.choice, &outcome.hash, &outcome.reason}) {
      const std::optional<std::string_view> taken = take_sized(bytes);
      if (!taken) return std::nullopt;
      *text = *taken;
    }
    const std::optional<uint64_t> standing = take_number(bytes), rounds = take_number(bytes);
    if (!standing || *standing > static_cast<uint64_t>(Standing::Unchecked) || !rounds || *rounds > INT32_MAX) return std::nullopt;
    outcome.standing = static_cast<Standing>(*standing);
    outcome.rounds = static_cast<int>(*rounds);
    for (double* number : {&outcome.cost_s, &outcome.median_s, &outcome.fastest_s, &outcome.slowest_s}) {
      const std::optional<uint64_t> taken = take_number(bytes);
      if (!taken) return std::nullopt;
      *number = std::bit_cast<double>(*taken);
    }
  }
  return outcomes;
}

std::string changes_text(const std::vector<Decision>& decisions, uint64_t late) {
  size_t changed = 0;
  double before_s = 0, after_s = 0;
  std::string lines;
  for (const Decision& decision : decisions) {
    const Outcome* estimated = nullptr;
    for (const Outcome& each : decision.outcomes) {
      const bool could_be = is_usable(each) || each.standing == Standing::NotTried;
      if (could_be && (estimated == nullptr || each.cost_s < estimated->cost_s)) estimated = &each;
    }
    const Outcome* const chosen = decision.find(decision.choice);
    if (estimated == nullptr || chosen == nullptr || estimated == chosen) continue;
    ++changed;
    lines += fmt::format("  {}: {} instead of {}", decision.problem, chosen->choice, estimated->choice);
    if (estimated->standing == Standing::Timed && chosen->standing == Standing::Timed) {
      before_s += estimated->median_s;
      after_s += chosen->median_s;
      lines += fmt::format(", {:.4f} ms instead of {:.4f}", chosen->median_s * 1e3, estimated->median_s * 1e3);
    }
    lines += "\n";
  }
  const std::string gain = changed == 0 ? ": the estimates of mode default choose the same"
                                        : fmt::format(", {:.4f} ms instead of {:.4f} in all", after_s * 1e3, before_s * 1e3);
  if (late > 0) lines += fmt::format("  {} problems were not reached in time: a longer --tune-limit goes on with them\n", late);
  return fmt::format("{} of {} problems changed{}\n", changed, decisions.size(), gain) + lines;
}

std::string table_text(const Decision& decision) {
  std::string text = fmt::format("{}: {} ({})\n", decision.problem, decision.choice, to_string(decision.source));
  const double best_s = decision.outcomes.empty() ? 0 : decision.outcomes.front().median_s;
  size_t width = 24;
  for (const Outcome& outcome : decision.outcomes) width = std::max(width, outcome.choice.size());
  for (const Outcome& outcome : decision.outcomes) {
    text += fmt::format("  {:<{}} ", outcome.choice, width);
    if (outcome.standing == Standing::Timed) {
      text += fmt::format("{:>9.4f} ms {:>5.0f} %  {:.4f} to {:.4f} in {} rounds, estimated {:.2g}", outcome.median_s * 1e3,
                          100 * best_s / outcome.median_s, outcome.fastest_s * 1e3, outcome.slowest_s * 1e3, outcome.rounds,
                          outcome.cost_s * 1e3);
    } else {
      text += to_string(outcome.standing);
      if (outcome.cost_s > 0) text += fmt::format(", estimated {:.2g} ms", outcome.cost_s * 1e3);
      if (!outcome.reason.empty()) text += ": " + outcome.reason;
    }
    text += "\n";
  }
  return text;
}

}  // namespace toroid::tune
