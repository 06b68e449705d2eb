// Where a host wants diagnostics and progress: its own functions, in the place of stderr. For the whole process.
#pragma once

#include <cstdint>
#include <string_view>

#include "support/log.h"

namespace toroid {

struct LogSink {
  // Called from any thread, also from several at once; must not throw. text: without an end of line.
  void (*write)(void* user, LogLevel level, std::string_view text) noexcept = nullptr;
  void* user = nullptr;
  LogLevel least = LogLevel::Warn;  // less severe lines are not written
};
// write null: stderr again, as TOROID_LOG says.
void set_log_sink(const LogSink& sink) noexcept;

struct ProgressSink {
  // Called with each step of work that may last, from any thread, one at a time for each `what`: "compiling kernels", 12, 40.
  void (*advance)(void* user, std::string_view what, uint64_t done, uint64_t total) noexcept = nullptr;
  void* user = nullptr;
};
// advance null: stderr again, where it is shown at all.
void set_progress_sink(const ProgressSink& sink) noexcept;

}  // namespace toroid
