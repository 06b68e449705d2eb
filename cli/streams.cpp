#include "streams.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/mapped_file.h"
#include "base/file/write_signals.h"

namespace toroid::cli {
namespace {

// Number 0 for writing and the others for reading, so that what is asked of them fails, as it does of a closed one.
void open_closed_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

ssize_t write_or_lose(void*, const char* text, size_t size) {
  const WriteSignalsBlock block;
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::write(STDERR_FILENO, text + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(size);
}

// fmt::print throws where a write fails, so the writes of this stream never do. A terminal stays itself, for what asks whether it is one.
void forgive_standard_error() {
  if (::isatty(STDERR_FILENO) == 1) return;
  std::FILE* const forgiving = ::fopencookie(nullptr, "w", {.read = nullptr, .write = write_or_lose, .seek = nullptr, .close = nullptr});
  if (forgiving == nullptr) return;
  std::setvbuf(forgiving, nullptr, _IOLBF, BUFSIZ);
  stderr = forgiving;
}

}  // namespace

void prepare_process() {
  open_closed_streams();
  forgive_standard_error();
  ::signal(SIGXFSZ, SIG_IGN);
  answer_bus_errors();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void end_children() {
  constexpr int kMostRounds = 200;  // of 10 ms, for those that cannot be killed
  for (int round = 0; round < kMostRounds; ++round, ::usleep(10'000)) {
    pid_t ended;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return;  // there is none
    std::error_code failure;
    for (std::filesystem::directory_iterator thread("/proc/self/task", failure), end; !failure && thread != end;
         thread.increment(failure)) {
      std::ifstream children(thread->path() / "children");
      for (pid_t child = 0; children >> child;) ::kill(child, SIGKILL);
    }
  }
}

void finish_output(const std::exception_ptr& thrown) {
  const bool had_failed = std::ferror(stdout) != 0;
  errno = 0;
  const bool fails = std::fflush(stdout) != 0;
  std::error_code reason(errno, std::generic_category());
  if (!had_failed && (!fails || thrown)) return;
  try {
    if (had_failed && thrown) std::rethrow_exception(thrown);
  } catch (const std::system_error& failure) {  // fmt::print's
    reason = failure.code();
  } catch (...) {
  }
  throw Error(ErrorKind::Environment, fmt::format("cannot write to standard output{}", reason ? ": " + reason.message() : ""))
      .help("what the command prints is not complete: check where its output goes");
}

}  // namespace toroid::cli
