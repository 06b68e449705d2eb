// Which of several ways to do the same work on a GPU is the quickest, by starting each a few times.
#pragma once

#include <algorithm>
#include <optional>

#include "runtime/cuda/device.h"

namespace toroid::cuda {

// The position of the quickest of `count` ways; none where all fail. `start(position)` starts the work on the stream; false where it fails,
// and then that way is none. The least of a few times counts; where times are nearly the same, the earlier way is taken.
template <class Start>
std::optional<size_t> quickest(const Stream& stream, size_t count, const Start& start) {
  constexpr int kTimes = 3, kCalls = 4;
  constexpr double kClearly = 0.98, kHopeless = 1.2;
  const Event from, to;
  std::optional<size_t> chosen;
  double best = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!start(i)) continue;
    double least = 0;
    for (int time = 0; time < kTimes; ++time) {
      from.record(stream.handle());
      for (int call = 0; call < kCalls; ++call) start(i);
      to.record(stream.handle());
      const double seconds = Event::seconds(from, to);
      least = time == 0 ? seconds : std::min(least, seconds);
      if (chosen && least > kHopeless * best) break;
    }
    if (chosen && least >= kClearly * best) continue;
    best = least;
    chosen = i;
  }
  return chosen;
}

}  // namespace toroid::cuda
