#include "support/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace toroid {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::Trace: return spdlog::level::trace;
    case LogLevel::Debug: return spdlog::level::debug;
    case LogLevel::Info: return spdlog::level::info;
    case LogLevel::Warn: return spdlog::level::warn;
    case LogLevel::Error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Not registered with spdlog: a host that uses spdlog itself keeps its own registry and default logger.
spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("toroid", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made.set_pattern("toroid: %^%l%$: %v");
    made.set_level(spdlog::level::warn);
    const char* wanted = std::getenv("TOROID_LOG");
    if (wanted != nullptr && *wanted != '\0') {
      const auto level = spdlog::level::from_str(wanted);  // answers off for a name it does not know
      if (level != spdlog::level::off || std::string_view(wanted) == "off") {
        made.set_level(level);
      } else {
        made.warn("TOROID_LOG is '{}'; known are trace, debug, info, warn, error and off", wanted);
      }
    }
    return made;
  }();
  return instance;
}

}  // namespace

bool log_enabled(LogLevel level) { return logger().should_log(level_of(level)); }

void log_text(LogLevel level, std::string_view text) { logger().log(level_of(level), spdlog::string_view_t(text.data(), text.size())); }

}  // namespace toroid
