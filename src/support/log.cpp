#include "support/log.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>

namespace toroid {
namespace {

struct LevelName {
  std::string_view name;
  int level;
};
constexpr int kOff = static_cast<int>(LogLevel::Error) + 1;
constexpr LevelName kLevelNames[] = {
    {"trace", static_cast<int>(LogLevel::Trace)},  {"debug", static_cast<int>(LogLevel::Debug)}, {"info", static_cast<int>(LogLevel::Info)},
    {"warning", static_cast<int>(LogLevel::Warn)}, {"error", static_cast<int>(LogLevel::Error)}, {"off", kOff},
    {"warn", static_cast<int>(LogLevel::Warn)},
};

// A line is written at once, so that those of several threads stay whole, and takes no memory.
void write_line(LogLevel level, std::string_view text) noexcept {
  const std::string_view parts[] = {"toroid: ", kLevelNames[static_cast<size_t>(level)].name, ": ", text, "\n"};
  iovec pieces[std::size(parts)];
  for (size_t i = 0; i < std::size(parts); ++i) pieces[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
  [[maybe_unused]] const ssize_t written = ::writev(STDERR_FILENO, pieces, std::size(pieces));
}

int least_shown() noexcept {
  static const int least = [] {
    const char* const wanted = std::getenv("TOROID_LOG");
    if (wanted == nullptr || *wanted == '\0') return static_cast<int>(LogLevel::Warn);
    for (const LevelName& each : kLevelNames) {
      if (each.name == wanted) return each.level;
    }
    fmt::memory_buffer text;
    fmt::format_to(fmt::appender(text), "TOROID_LOG is '{:.100}'; known are trace, debug, info, warn, error and off", wanted);
    write_line(LogLevel::Warn, {text.data(), text.size()});
    return static_cast<int>(LogLevel::Warn);
  }();
  return least;
}

}  // namespace

bool log_enabled(LogLevel level) noexcept { return static_cast<int>(level) >= least_shown(); }

void log_text(LogLevel level, std::string_view text) noexcept {
  if (log_enabled(level)) write_line(level, text);
}

}  // namespace toroid
