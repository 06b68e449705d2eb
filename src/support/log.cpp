#include "support/log.h"

#include <cstdio>
#include <cstdlib>
#include <string>

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

// A line is written at once, so that those of several threads stay whole.
void write_line(LogLevel level, std::string_view text) {
  const std::string line = fmt::format("toroid: {}: {}\n", kLevelNames[static_cast<size_t>(level)].name, text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int least_shown() {
  static const int least = [] {
    const char* const wanted = std::getenv("TOROID_LOG");
    if (wanted == nullptr || *wanted == '\0') return static_cast<int>(LogLevel::Warn);
    for (const LevelName& each : kLevelNames) {
      if (each.name == wanted) return each.level;
    }
    write_line(LogLevel::Warn, fmt::format("TOROID_LOG is '{}'; known are trace, debug, info, warn, error and off", wanted));
    return static_cast<int>(LogLevel::Warn);
  }();
  return least;
}

}  // namespace

bool log_enabled(LogLevel level) { return static_cast<int>(level) >= least_shown(); }

void log_text(LogLevel level, std::string_view text) {
  if (log_enabled(level)) write_line(level, text);
}

}  // namespace toroid
