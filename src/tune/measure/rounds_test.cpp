#include "tune/measure/rounds.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace toroid::tune {
namespace {

// A machine whose clock moves only when a contestant runs.
class FakeMachine {
 public:
  // Takes these seconds a run in its rounds, one after the other; the last ones for ever. Negative: fails.
  Contestant contestant(char name, std::vector<double> times_s, double estimate_s = 1e-3) {
    auto round = std::make_shared<size_t>(0);
    return {[this, name, times_s, round](int repetitions) -> std::optional<double> {
              order += name;
              this->repetitions.push_back(repetitions);
              const double time_s = times_s[std::min((*round)++, times_s.size() - 1)];
              if (time_s < 0) return std::nullopt;
              now_s += time_s * repetitions;
              return time_s;
            },
            estimate_s};
  }
  RoundOptions options(RoundOptions options = {}) {
    options.now_s = [this] { return now_s; };
    return options;
  }

  double now_s = 100;
  std::string order;
  std::vector<int> repetitions;
};

TEST(Rounds, TakeTurnsForthAndBackAndNobodyTwiceInARow) {
  FakeMachine machine;
  time_in_rounds({machine.contestant('a', {1e-3}), machine.contestant('b', {1e-3}), machine.contestant('c', {1e-3})},
                 machine.options({.rounds = 3}));
  EXPECT_EQ(machine.order, "abcbacabc");
}

TEST(Rounds, GiveTheMedianSoThatDisturbancesDoNotCount) {
  FakeMachine machine;
  const auto times = time_in_rounds({machine.contestant('a', {9e-3, 1e-3, 1.2e-3, 8e-3, 1.3e-3}), machine.contestant('b', {2e-3, 1.1e-3})},
                                    machine.options({.rounds = 5, .hopeless = 10}));
  EXPECT_EQ(times[0].median_s, 1.2e-3);
  EXPECT_EQ(times[0].fastest_s, 1e-3);
  EXPECT_EQ(times[0].slowest_s, 9e-3);
  EXPECT_EQ(times[0].rounds, 5);
  EXPECT_EQ(times[1].median_s, 1.1e-3);
}

TEST(Rounds, OfAnEvenNumberTheMedianLiesBetween) {
  FakeMachine machine;
  const auto times =
      time_in_rounds({machine.contestant('a', {1.5e-3, 1e-3}), machine.contestant('b', {1e-3})}, machine.options({.rounds = 2}));
  EXPECT_DOUBLE_EQ(times[0].median_s, 1.25e-3);
}

TEST(Rounds, AreFilledWithRepetitions) {
  FakeMachine machine;
  const RoundOptions options = machine.options({.rounds = 2, .round_s = 3e-3, .most_repetitions = 500});
  time_in_rounds({machine.contestant('a', {1e-3}, 2e-3)}, options);
  EXPECT_EQ(machine.repetitions, (std::vector<int>{1, 3})) << "first by the estimate, then by what was measured";
  EXPECT_EQ(repetitions_for(1e-9, options), 500);
  EXPECT_EQ(repetitions_for(0, options), 500);
  EXPECT_EQ(repetitions_for(10, options), 1);
}

TEST(Rounds, WhoIsClearlySlowerIsGivenUp) {
  FakeMachine machine;
  const auto times = time_in_rounds({machine.contestant('a', {1e-3}), machine.contestant('b', {1.1e-3}), machine.contestant('c', {5e-3})},
                                    machine.options({.rounds = 6, .tries = 2}));
  EXPECT_EQ(times[0].rounds, 6);
  EXPECT_EQ(times[1].rounds, 6);
  EXPECT_EQ(times[2].rounds, 2);
  EXPECT_EQ(times[2].median_s, 5e-3) << "what was measured stays";
}

TEST(Rounds, OneThatWasOnlyDisturbedIsNotGivenUp) {
  FakeMachine machine;
  const auto times = time_in_rounds({machine.contestant('a', {1e-3}), machine.contestant('b', {9e-3, 0.9e-3})},
                                    machine.options({.rounds = 5, .tries = 2}));
  EXPECT_EQ(times[1].rounds, 5);
  EXPECT_EQ(times[1].median_s, 0.9e-3);
}

TEST(Rounds, AWinnerWithoutRivalsIsNotTimedOn) {
  FakeMachine machine;
  const auto times = time_in_rounds({machine.contestant('a', {1e-3}), machine.contestant('b', {5e-3})}, machine.options({.rounds = 9}));
  EXPECT_EQ(times[0].rounds, 2);
}

TEST(Rounds, EndAtTheTimeLimit) {
  FakeMachine machine;
  const auto times = time_in_rounds({machine.contestant('a', {1}, 1), machine.contestant('b', {1}, 1), machine.contestant('c', {1}, 1)},
                                    machine.options({.limit_s = 1.5}));
  EXPECT_EQ(machine.order, "ab");
  EXPECT_EQ(times[1].rounds, 1);
  EXPECT_EQ(times[2].rounds, 0);
  EXPECT_FALSE(times[2].failed);
}

TEST(Rounds, WhoFailsEndsAlone) {
  FakeMachine machine;
  const auto times = time_in_rounds({machine.contestant('a', {1e-3, -1}), machine.contestant('b', {1e-3}), machine.contestant('c', {1e-3})},
                                    machine.options({.rounds = 3}));
  EXPECT_EQ(machine.order, "abcbacbc");
  EXPECT_TRUE(times[0].failed);
  EXPECT_EQ(times[1].rounds, 3);
}

TEST(Rounds, OneLuckyTimeIsNoMeasure) {
  EXPECT_EQ(median_undisturbed({1, 2.1, 2.1, 2.1, 2.1, 2.1, 2.1, 2.1}), 2.1);
  EXPECT_EQ(median_undisturbed({9}), 9);
  EXPECT_EQ(median_undisturbed({9, 1}), 1);
}

// What `again` gives behind the first, and the ratio that counts.
double agreed(double first, std::vector<double> further) {
  std::vector<double> ratios = {first};
  size_t next = 0;
  const auto again = [&] { return next < further.size() ? std::optional(further[next++]) : std::nullopt; };
  const size_t index = index_of_agreed(ratios, 1.15, 3, again);
  EXPECT_EQ(next, further.size()) << "neither fewer nor more are asked for";
  return ratios[index];
}
TEST(Rounds, ALossIsOneWhereThreeComparisonsAgree) {
  EXPECT_EQ(agreed(1.3, {1.2, 1.4}), 1.3);
  EXPECT_EQ(agreed(1.3, {1.0, 1.1, 1.05}), 1.1);
  EXPECT_EQ(agreed(1.3, {1.0, 1.2, 1.1, 1.4}), 1.2);
}

TEST(Rounds, OfNobodyAreOver) { EXPECT_TRUE(time_in_rounds({}).empty()); }

}  // namespace
}  // namespace toroid::tune
