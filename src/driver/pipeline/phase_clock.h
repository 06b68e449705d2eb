// The time of each phase of a compilation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace toroid {

struct PhaseTime {
  std::string name;
  double seconds;
};

// Phases by name, each with the time of all its variants.
class PhaseClock {
 public:
  explicit PhaseClock(std::vector<PhaseTime>& phases) : phases_(phases) {}
  // The phase at hand ends.
  void done(std::string_view phase) {
    add(phase, watch_.seconds());
    watch_.restart();
  }
  void add(std::string_view phase, double seconds) {
    for (PhaseTime& each : phases_) {
      if (each.name == phase) {
        each.seconds += seconds;
        return;
      }
    }
    phases_.push_back({std::string(phase), seconds});
  }
  void restart() { watch_.restart(); }

 private:
  std::vector<PhaseTime>& phases_;
  Stopwatch watch_;
};

}  // namespace toroid
