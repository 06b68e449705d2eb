// Diagnostics for people, on stderr. TOROID_LOG chooses the least severe level that is shown: trace,
// debug, info, warn (the default), error or off. What a command produces goes to stdout and never through here.
//
//   log_debug("{} kernels fused into {}", before, after);
#pragma once

#include <new>
#include <string_view>

#include <fmt/format.h>

namespace toroid {

enum class LogLevel { Trace, Debug, Info, Warn, Error };

bool log_enabled(LogLevel level) noexcept;
void log_text(LogLevel level, std::string_view text) noexcept;

// The arguments are formatted only when the level is shown. Nothing is thrown: who warns that memory is out goes on without the words.
template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!log_enabled(level)) return;
  try {
    fmt::memory_buffer text;  // lines of common length take no memory
    fmt::format_to(fmt::appender(text), format, std::forward<Args>(args)...);
    log_text(level, {text.data(), text.size()});
  } catch (const std::bad_alloc&) {
    log_text(level, "a message is left out: out of memory");
  }
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
