#include "support/progress.h"

#include <atomic>

#include <fmt/format.h>

#include "support/sinks.h"

namespace toroid {
namespace {
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kLogInterval = std::chrono::seconds(5);
constexpr const char* kWipeLine = "\r\x1b[K";
std::atomic<bool> progress_shown = false;
std::mutex progress_sink_mutex;
ProgressSink progress_sink;

// Is there one? Then it was told.
bool tell_sink(const std::string& what, size_t done, size_t total) {
  const std::lock_guard lock(progress_sink_mutex);
  if (progress_sink.advance == nullptr) return false;
  progress_sink.advance(progress_sink.user, what, done, total);
  return true;
}
}  // namespace

void set_progress_sink(const ProgressSink& sink) noexcept {
  const std::lock_guard lock(progress_sink_mutex);
  progress_sink = sink;
}

void show_progress(bool shown) { progress_shown = shown; }
bool is_progress_shown() { return progress_shown; }

Progress::Progress(std::string what, size_t total, ProgressOptions options)
    : what_(std::move(what)), total_(total), options_(std::move(options)), next_print_(options_.now() + options_.quiet) {}

Progress::~Progress() {
  if (shown_ && options_.terminal) options_.print(kWipeLine);
}

void Progress::advance(size_t steps) {
  std::lock_guard lock(mutex_);
  done_ += steps;
  if (tell_sink(what_, done_, total_) || !options_.enabled) return;
  const auto now = options_.now();
  if (now < next_print_) return;
  shown_ = true;
  if (options_.terminal) {
    next_print_ = now + kTerminalInterval;
    options_.print(fmt::format("{}{} {}/{}", kWipeLine, what_, done_, total_));
  } else {
    next_print_ = now + kLogInterval;
    options_.print(fmt::format("{} {}/{}\n", what_, done_, total_));
  }
}

}  // namespace toroid
