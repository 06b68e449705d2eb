// Diagnostics for people, on stderr. TOROID_LOG chooses the least severe level that is shown: trace,
// debug, info, warn (the default), error or off. What a command produces goes to stdout and never through here.
//
//   log_debug("{} kernels fused into {}", before, after);
#pragma once

#include <string_view>

#include <fmt/format.h>

namespace toroid {

enum class LogLevel { Trace, Debug, Info, Warn, Error };

bool log_enabled(LogLevel level);
void log_text(LogLevel level, std::string_view text);

// The arguments are formatted only when the level is shown.
template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_text(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::Debug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::Info, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::Warn, format, std::forward<Args>(args)...);
}

}  // namespace toroid
