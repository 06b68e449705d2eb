// Times contestants against each other on a machine that does other things as well.
//
// Each round runs every contestant in turn, some milliseconds each, so that what slows the machine for a while slows all of them;
// every second round goes another way, so that nobody always follows the same one. Nobody runs twice in a row either: it would find its own
// instructions and page tables in the caches, which the others had since. A contestant's time is the median of its rounds but those that
// were interrupted.
// Who is clearly slower than the best is not run again, and the whole ends at a time limit.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace toroid::tune {

struct RoundOptions {
  int rounds = 7;
  double round_s = 3e-3;  // of one contestant's part in a round: as many repetitions as fit, at least one
  int most_repetitions = 1000;
  double limit_s = 2;                  // of the whole; a round that has begun for a contestant is finished
  int tries = 2;                       // rounds after which a contestant may be given up …
  double hopeless = 1.5;               // … if even its fastest round took so many times the best one's median
  std::function<double()> now_s = {};  // empty: a monotonic clock
};

struct Contestant {
  // Runs so many times and returns the seconds of one run; nullopt when it failed, which ends its part.
  std::function<std::optional<double>(int repetitions)> run_s;
  double estimate_s = 0;  // of one run, from a run before
};

struct RoundTimes {
  int rounds = 0;  // 0: the time was up before its first round, or it failed there
  bool failed = false;
  double median_s = 0, fastest_s = 0, slowest_s = 0;  // of one run
};

// One entry a contestant, in their order. Earlier ones come first where time is short.
std::vector<RoundTimes> time_in_rounds(const std::vector<Contestant>& contestants, const RoundOptions& options = {});

// How often to run what takes so long, to fill a round.
int repetitions_for(double estimate_s, const RoundOptions& options);

// Of times, at least one. Those that are more than twice the lower quartile were interrupted, for a time slice or more, and do not count;
// of an even number of others it is the mean of the two in the middle.
double median_undisturbed(std::vector<double> times);

// Of ratios, at least one, and as many more by `again` as it takes until so many agree in being above the limit or not, or there are no
// more: the index of the one in the middle.
size_t index_of_agreed(std::vector<double>& ratios, double limit, int agreeing, const std::function<std::optional<double>()>& again);

}  // namespace toroid::tune
