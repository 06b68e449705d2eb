#include "isolate.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid;
  int output;
  size_t index;
  Clock::time_point deadline;
  std::string text;
};

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

Child start(size_t index, double timeout_s, const std::function<std::string(size_t)>& work) {
  int ends[2];
  const bool piped = ::pipe(ends) == 0;
  const pid_t pid = piped ? ::fork() : -1;
  if (pid < 0) {
    throw Error(ErrorKind::Environment, fmt::format("cannot start a child process: {}", strerror(errno)))
        .help("run without --isolate, or with fewer --jobs");
  }
  if (pid == 0) {
    ::close(ends[0]);
    write_all(ends[1], work(index));
    ::_exit(0);  // the parent's buffers and destructors are none of the child's business
  }
  ::close(ends[1]);
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s));
  return {pid, ends[0], index, Clock::now() + limit, {}};
}

// Reads what there is; false at the end.
bool read_some(Child& child) {
  char buffer[4096];
  const ssize_t got = ::read(child.output, buffer, sizeof(buffer));
  if (got < 0) return errno == EINTR;
  child.text.append(buffer, static_cast<size_t>(got));
  return got > 0;
}

// Empty when the child ended by itself and well.
std::string reap(const Child& child) {
  ::close(child.output);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    return fmt::format("crashed with signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, std::min<int64_t>(left + 1, 1000)));
}

}  // namespace

void run_isolated(size_t count, const IsolateOptions& options, const std::function<std::string(size_t index)>& work,
                  const std::function<void(size_t index, std::string text, bool died)>& done) {
  std::vector<Child> running;
  for (size_t next = 0; next < count || !running.empty();) {
    while (next < count && running.size() < std::max<size_t>(options.jobs, 1)) {
      running.push_back(start(next++, options.timeout_s, work));
    }
    std::vector<pollfd> files;
    int wait_ms = 1000;
    for (const Child& child : running) {
      files.push_back({child.output, POLLIN, 0});
      wait_ms = std::min(wait_ms, milliseconds_until(child.deadline));
    }
    ::poll(files.data(), files.size(), wait_ms);
    for (size_t i = running.size(); i-- > 0;) {
      Child& child = running[i];
      const bool late = Clock::now() > child.deadline;
      if (files[i].revents != 0 && read_some(child)) continue;
      if (files[i].revents == 0 && !late) continue;
      if (late) ::kill(child.pid, SIGKILL);
      std::string death = reap(child);
      if (late) death = fmt::format("took longer than {} s", options.timeout_s);
      const bool died = !death.empty();
      done(child.index, died ? std::move(death) : std::move(child.text), died);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

}  // namespace toroid::cli
