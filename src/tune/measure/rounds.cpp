#include "tune/measure/rounds.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

namespace toroid::tune {
namespace {

double monotonic_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct State {
  std::vector<double> times_s;
  bool failed = false;
  bool given_up = false;

  bool is_running() const { return !failed && !given_up; }
  double fastest_s() const { return *std::min_element(times_s.begin(), times_s.end()); }
};

// Puts aside who can no longer win. Returns how many are left.
size_t give_up_hopeless(std::vector<State>& states, const RoundOptions& options) {
  double best_s = std::numeric_limits<double>::infinity();
  for (const State& state : states) {
    if (!state.failed && !state.times_s.empty()) best_s = std::min(best_s, median_undisturbed(state.times_s));
  }
  for (State& state : states) {
    const bool tried = state.times_s.size() >= static_cast<size_t>(options.tries);
    if (state.is_running() && tried && state.fastest_s() > options.hopeless * best_s) state.given_up = true;
  }
  return static_cast<size_t>(std::count_if(states.begin(), states.end(), [](const State& state) { return state.is_running(); }));
}

// Those that still run: in every second round the others back to the first before the last one, so that nobody comes twice in a row.
std::vector<size_t> turns_of(int round, const std::vector<State>& states) {
  std::vector<size_t> turns;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].is_running()) turns.push_back(i);
  }
  if (round % 2 != 0 && !turns.empty()) std::reverse(turns.begin(), turns.end() - 1);
  return turns;
}

}  // namespace

double median_undisturbed(std::vector<double> values) {
  constexpr double kDisturbed = 2;
  const auto quarter = values.begin() + static_cast<ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quarter, values.end());
  std::erase_if(values, [most = kDisturbed * *quarter](double value) { return value > most; });
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

size_t index_of_agreed(std::vector<double>& ratios, double limit, int agreeing, const std::function<std::optional<double>()>& again) {
  const auto are_split = [&] {
    const auto above = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) { return ratio > limit; });
    return std::max<std::ptrdiff_t>(above, std::ssize(ratios) - above) < agreeing;
  };
  while (are_split()) {
    const std::optional<double> ratio = again();
    if (!ratio) break;
    ratios.push_back(*ratio);
  }
  std::vector<size_t> order(ratios.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto middle = order.begin() + static_cast<ptrdiff_t>(order.size() / 2);
  std::nth_element(order.begin(), middle, order.end(), [&](size_t a, size_t b) { return ratios[a] < ratios[b]; });
  return *middle;
}

int repetitions_for(double estimate_s, const RoundOptions& options) {
  const double fitting = estimate_s > 0 ? options.round_s / estimate_s : options.most_repetitions;
  return static_cast<int>(std::clamp(std::floor(fitting), 1.0, static_cast<double>(options.most_repetitions)));
}

std::vector<RoundTimes> time_in_rounds(const std::vector<Contestant>& contestants, const RoundOptions& options) {
  const auto now_s = options.now_s ? options.now_s : monotonic_s;
  const double start_s = now_s();
  std::vector<State> states(contestants.size());
  bool time_is_up = false;
  for (int round = 0; round < options.rounds && !time_is_up; ++round) {
    for (const size_t i : turns_of(round, states)) {
      State& state = states[i];
      const double estimate_s = state.times_s.empty() ? contestants[i].estimate_s : state.fastest_s();
      const std::optional<double> time_s = contestants[i].run_s(repetitions_for(estimate_s, options));
      if (time_s) state.times_s.push_back(*time_s);
      state.failed = !time_s;
      time_is_up = now_s() - start_s >= options.limit_s;
      if (time_is_up) break;
    }
    // Of a winner without rivals the time need not be known any better.
    if (give_up_hopeless(states, options) <= 1 && round + 1 >= options.tries) break;
  }
  std::vector<RoundTimes> result;
  for (const State& state : states) {
    RoundTimes times{.rounds = static_cast<int>(state.times_s.size()), .failed = state.failed};
    if (!state.times_s.empty()) {
      times.median_s = median_undisturbed(state.times_s);
      times.fastest_s = state.fastest_s();
      times.slowest_s = *std::max_element(state.times_s.begin(), state.times_s.end());
    }
    result.push_back(times);
  }
  return result;
}

}  // namespace toroid::tune
