// Tells the user what takes long: one line on stderr, only for work that lasts over a second.
//
//   Progress progress("compiling kernels", kernels.size());
//   pool.parallel_for(kernels.size(), [&](size_t i) { compile(i); progress.advance(); });
//
// shows "compiling kernels 12/40", rewritten in place on a terminal and as a line now and then in a log file.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

namespace toroid {

// Whether lines are shown where nothing else is said: by a command, and not by a library, whose process is another's.
void show_progress(bool shown);
bool is_progress_shown();

struct ProgressOptions {
  bool enabled = is_progress_shown();
  bool terminal = ::isatty(STDERR_FILENO) == 1;               // rewrite the line in place
  std::chrono::milliseconds quiet = std::chrono::seconds(1);  // nothing is shown before
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::function<void(const std::string&)> print = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  };
};

// Safe to advance from several threads.
class Progress {
 public:
  Progress(std::string what, size_t total, ProgressOptions options = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Wipes the line from a terminal.
  ~Progress();

  void advance(size_t steps = 1);

 private:
  std::mutex mutex_;
  std::string what_;
  size_t total_;
  size_t done_ = 0;
  ProgressOptions options_;
  std::chrono::steady_clock::time_point next_print_;
  bool shown_ = false;
};

}  // namespace toroid
