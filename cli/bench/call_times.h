// How long calls of a program take, on the host and on a GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/program/executable.h"

namespace toroid::cli {

struct Timing {
  double median_ms, min_ms, max_ms;
  int runs;
};
Timing summary(std::vector<double> milliseconds);

// The milliseconds of each call: for about so many seconds, at least ten times, after kWarmUps calls; or of `calls` of them, if that is not 0.
constexpr size_t kWarmUps = 3;
template <class F>
std::vector<double> time_calls(F call, double seconds, size_t calls) {
  for (size_t i = 0; i < kWarmUps; ++i) call();
  std::vector<double> times;
  Stopwatch all;
  const auto are_enough = [&] {
    return calls > 0 ? times.size() >= calls : times.size() >= 10 && (all.seconds() >= seconds || times.size() >= 100000);
  };
  while (!are_enough()) {
    Stopwatch one;
    call();
    times.push_back(one.milliseconds());
  }
  return times;
}

// On a GPU: between events on its stream, with inputs and outputs that stay there.
struct DeviceTiming {
  Timing calls, one_by_one;  // the latter: each kernel started by itself; the same where calls are no graphs
  double host_us, one_by_one_host_us;
  std::optional<size_t> graph_nodes;
};
DeviceTiming time_on_device(Executable& program, const std::vector<HostTensor>& inputs, double seconds, int number);
// "a CUDA graph of 14 nodes, 3.1 us of the host a call; kernel by kernel 0.1620 ms, 25.0 us of the host"
std::string device_text(const DeviceTiming& timing);

}  // namespace toroid::cli
