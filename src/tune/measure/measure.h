// Tries candidates for one problem in a worker: each is checked against the reference, and those that are right are timed.
//
// Whatever a candidate does costs that candidate alone: the next request finds a fresh worker.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tune/measure/rounds.h"
#include "tune/measure/worker.h"

namespace toroid::tune {

enum class Standing {
  Timed,
  GateClosed,   // may not compete
  Quarantined,  // did harm before
  NotTried,     // the estimate of its time is too far behind the best's
  OutOfTime,    // was right, but the time of the problem was up
  Refused,      // the kernel threw an Error, or the machine ended its process
  Wrong,        // another result than the reference
  Faulty,       // crashed, hung, exited, printed without end
  Unchecked,    // the reference itself failed
};
std::string_view to_string(Standing standing);  // "timed", "gate closed", …

// What became of one choice.
struct Outcome {
  std::string choice;
  std::string hash = {};
  double cost_s = 0;  // the estimate; 0 when its gate is closed
  Standing standing = Standing::NotTried;
  std::string reason = {};                            // unless Timed: "accessed memory 64 bytes beyond the end of input 1"
  double median_s = 0, fastest_s = 0, slowest_s = 0;  // of one run, when Timed
  int rounds = 0;

  bool operator==(const Outcome&) const = default;
};

struct MeasureOptions {
  int threads = 1;
  bool cold = false;                                                    // each run finds its operands in memory, not in the caches
  uint64_t seed = 1;                                                    // of the inputs' elements
  std::chrono::milliseconds result_timeout = std::chrono::seconds(10);  // of one request
  RoundOptions rounds = {};  // its limit_s counts from the first round; checks before it take a few runs each
};

// `problem`: what the worker is told to try. Fills in the standing and the times of `candidates`, which are given with their names, hashes
// and estimates, the most promising first. Throws what Worker::ask throws.
void measure(const std::string& problem, const std::string& reference, std::vector<Outcome>& candidates, Worker& worker,
             const MeasureOptions& options);

}  // namespace toroid::tune
