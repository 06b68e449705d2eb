#include "bench/call_times.h"

#include <algorithm>

#include <fmt/format.h>

namespace toroid::cli {

Timing summary(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  return {milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(), static_cast<int>(milliseconds.size())};
}

DeviceTiming time_on_device(Executable& program, const std::vector<HostTensor>& inputs, double seconds, int number) {
  const auto timed = [&](bool graphs, double how_long, Timing& calls, double& host_us) {
    DeviceTimes times = program.time_on_device(inputs, {.seconds = how_long, .calls = number, .graphs = graphs});
    for (double& each : times.seconds) each *= 1e3;
    calls = summary(std::move(times.seconds));
    host_us = times.host_seconds * 1e6;
  };
  DeviceTiming result{};
  timed(true, seconds, result.calls, result.host_us);
  result.graph_nodes = program.graph_nodes();
  result.one_by_one = result.calls;
  result.one_by_one_host_us = result.host_us;
  if (result.graph_nodes) timed(false, seconds / 4, result.one_by_one, result.one_by_one_host_us);
  return result;
}

std::string device_text(const DeviceTiming& timing) {
  if (!timing.graph_nodes) return fmt::format("started kernel by kernel, {:.1f} us of the host a call", timing.host_us);
  return fmt::format("a CUDA graph of {} nodes, {:.1f} us of the host a call; kernel by kernel {:.4f} ms, {:.1f} us of the host",
                     *timing.graph_nodes, timing.host_us, timing.one_by_one.median_ms, timing.one_by_one_host_us);
}

}  // namespace toroid::cli
