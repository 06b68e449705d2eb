// Runs work in child processes, so that a crash or an endless loop costs one piece of work and not the whole run.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace toroid::cli {

struct IsolateOptions {
  size_t jobs = 1;
  double timeout_s = 60;
};

// For each index below `count`: `work(index)` in a child process, then `done(index, text, died)` here, with the text
// that work returned, or with why the child died. Call it before the process has threads.
void run_isolated(size_t count, const IsolateOptions& options, const std::function<std::string(size_t index)>& work,
                  const std::function<void(size_t index, std::string text, bool died)>& done);

}  // namespace toroid::cli
