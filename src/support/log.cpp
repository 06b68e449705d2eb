#include "support/log.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <shared_mutex>

#include "support/sinks.h"

namespace toroid {
namespace {

// By LogLevel; behind them, what shows nothing.
constexpr std::string_view kNames[] = {"trace", "debug", "info", "warning", "error", "off"};

// A line is written at once, so that those of several threads stay whole, and takes no memory.
void write_line(LogLevel level, std::string_view text) noexcept {
  const std::string_view parts[] = {"toroid: ", kNames[static_cast<size_t>(level)], ": ", text, "\n"};
  iovec pieces[std::size(parts)];
  for (size_t i = 0; i < std::size(parts); ++i) pieces[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
  [[maybe_unused]] const ssize_t written = ::writev(STDERR_FILENO, pieces, std::size(pieces));
}

int least_shown() noexcept {
  static const int least = [] {
    const char* const wanted = std::getenv("TOROID_LOG");
    if (wanted == nullptr || *wanted == '\0') return static_cast<int>(LogLevel::Warn);
    const std::string_view name = std::string_view(wanted) == "warn" ? "warning" : wanted;
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found != std::end(kNames)) return static_cast<int>(found - kNames);
    fmt::memory_buffer text;
    fmt::format_to(fmt::appender(text), "TOROID_LOG is '{:.100}'; known are trace, debug, info, warn, error and off", wanted);
    write_line(LogLevel::Warn, {text.data(), text.size()});
    return static_cast<int>(LogLevel::Warn);
  }();
  return least;
}

// Written once or twice in a process. A line holds it shared, so that a sink which is taken away is used by nobody any more.
std::shared_mutex log_sink_mutex;
LogSink log_sink;

}  // namespace

void set_log_sink(const LogSink& sink) noexcept {
  const std::lock_guard lock(log_sink_mutex);
  log_sink = sink;
}

bool log_enabled(LogLevel level) noexcept {
  const std::shared_lock lock(log_sink_mutex);
  return log_sink.write != nullptr ? level >= log_sink.least : static_cast<int>(level) >= least_shown();
}

void log_text(LogLevel level, std::string_view text) noexcept {
  const std::shared_lock lock(log_sink_mutex);
  if (log_sink.write != nullptr) {
    if (level >= log_sink.least) log_sink.write(log_sink.user, level, text);
  } else if (static_cast<int>(level) >= least_shown()) {
    write_line(level, text);
  }
}

}  // namespace toroid
