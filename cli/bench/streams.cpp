#include "bench/streams.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <charconv>
#include <exception>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine/processors.h"
#include "bench/call_times.h"
#include "runtime/pool/pool.h"

namespace toroid::cli {
namespace {

// A caller's times of calls, in milliseconds.
struct Caller {
  Executable program;
  std::optional<int> processor;
  std::vector<double> times = {};
  std::exception_ptr error = nullptr;
};

double of_sorted(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

// A caller's part of the processors; empty for all callers where threads are not pinned.
std::vector<int> processors_of(const std::vector<int>& all, int caller, int threads) {
  if (all.empty()) return {};
  return {all.begin() + caller * threads, all.begin() + (caller + 1) * threads};
}

std::vector<int> processors_to_pin(int needed) {
  std::vector<int> all = allowed_processors();
  if (all.size() < static_cast<size_t>(needed)) {
    throw Error(ErrorKind::InvalidOption, fmt::format("--pin takes {} processors; this process may use {}", needed, all.size()))
        .help(fmt::format("--threads {}", all.size()));
  }
  return all;
}

}  // namespace

std::vector<int> streams_asked(std::string_view text, int threads) {
  std::vector<int> result;
  if (text == "auto") {
    for (int streams = 1; streams < threads; streams *= 2) result.push_back(streams);
    result.push_back(threads);
    return result;
  }
  int streams = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), streams);
  if (fault != std::errc() || end != text.data() + text.size() || streams < 1) {
    throw Error(ErrorKind::InvalidOption, fmt::format("--streams is '{}'", text)).help("a number of callers, or auto");
  }
  if (streams > threads) {
    throw Error(ErrorKind::InvalidOption, fmt::format("--streams {} are more than the {} threads", streams, threads))
        .help("each caller has a thread at least; --threads says how many there are for all");
  }
  return {streams};
}

StreamsTiming time_streams(const std::shared_ptr<LoadedProgram>& program, const std::vector<HostTensor>& inputs, int streams, int threads,
                           double seconds, bool is_pinned) {
  const std::vector<int> all = is_pinned ? processors_to_pin(streams * threads) : std::vector<int>();
  std::vector<Caller> callers;
  for (int i = 0; i < streams; ++i) {
    const std::vector<int> its = processors_of(all, i, threads);
    callers.push_back(
        {Executable(program, 0, std::make_shared<RuntimePool>(threads, its)), its.empty() ? std::nullopt : std::optional(its[0])});
  }
  std::barrier all_are_warm(streams);
  std::atomic<bool> has_failed{false};
  const auto work = [&](Caller& caller) {
    if (caller.processor) stay_on_processor(*caller.processor);
    try {
      for (size_t i = 0; i < kWarmUps; ++i) caller.program.run(inputs);
    } catch (...) {
      caller.error = std::current_exception();
      has_failed = true;
    }
    all_are_warm.arrive_and_wait();
    if (has_failed) return;
    try {
      for (const Stopwatch all; caller.times.empty() || all.seconds() < seconds;) {
        const Stopwatch one;
        caller.program.run(inputs);
        caller.times.push_back(one.milliseconds());
      }
    } catch (...) {
      caller.error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads_of_callers;
    for (Caller& caller : callers) threads_of_callers.emplace_back(work, std::ref(caller));
  }
  StreamsTiming result{.streams = streams, .threads = threads, .calls_per_s = 0, .median_ms = 0, .slow_ms = 0};
  std::vector<double> times;
  for (const Caller& caller : callers) {
    if (caller.error) std::rethrow_exception(caller.error);
    double own = 0;
    for (const double time : caller.times) own += time;
    result.calls_per_s += 1e3 * static_cast<double>(caller.times.size()) / own;
    times.insert(times.end(), caller.times.begin(), caller.times.end());
  }
  std::sort(times.begin(), times.end());
  result.median_ms = of_sorted(times, 0.5);
  result.slow_ms = of_sorted(times, 0.99);
  return result;
}

void print_streams(const std::vector<StreamsTiming>& rows) {
  fmt::print("  {:>8} {:>14} {:>12} {:>12} {:>12}\n", "callers", "threads each", "calls/s", "median, ms", "99 %, ms");
  for (const StreamsTiming& row : rows)
    fmt::print("  {:8} {:14} {:12.1f} {:12.4f} {:12.4f}\n", row.streams, row.threads, row.calls_per_s, row.median_ms, row.slow_ms);
  if (rows.size() < 2) return;
  const auto more = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.calls_per_s < b.calls_per_s; });
  const auto sooner = std::min_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.median_ms < b.median_ms; });
  const auto named = [](const StreamsTiming& row) {
    return fmt::format("{} caller{} with {} thread{} each", row.streams, row.streams == 1 ? "" : "s", row.threads,
                       row.threads == 1 ? "" : "s");
  };
  fmt::print("  most calls a second: {}\n  the shortest calls:   {}\n", named(*more), named(*sooner));
  if (more == sooner) return;
  fmt::print("  the former are {:.2f} times as many, and each takes {:.2f} times as long\n", more->calls_per_s / sooner->calls_per_s,
             more->median_ms / sooner->median_ms);
}

void add_streams(nlohmann::ordered_json& json, const std::vector<StreamsTiming>& rows) {
  for (const StreamsTiming& row : rows) {
    json["streams"].push_back({{"streams", row.streams},
                               {"threads", row.threads},
                               {"calls_per_s", row.calls_per_s},
                               {"median_ms", row.median_ms},
                               {"p99_ms", row.slow_ms}});
  }
}

}  // namespace toroid::cli
