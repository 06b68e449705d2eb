#include "support/process/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/write_signals.h"
#include "support/process/child_process.h"

namespace toroid {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

Fd memory_file(std::string_view contents, const std::string& program) {
  Fd fd(::memfd_create("toroid-stdin", MFD_CLOEXEC));
  if (!fd) throw_cannot_run(program, errno);
  const WriteSignalsBlock block;
  for (size_t done = 0; done < contents.size();) {
    const ssize_t count = ::write(fd.get(), contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_cannot_run(program, errno);
    done += static_cast<size_t>(count);
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

// One of the child's output streams.
struct Stream {
  Fd fd;
  std::string& kept;
  uint64_t& total_bytes;

  // Reads what is there; closes at the end of the stream.
  void drain(size_t limit_bytes) {
    char chunk[1 << 16];
    while (fd) {
      const ssize_t count = ::read(fd.get(), chunk, sizeof chunk);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        fd.close();
        return;
      }
      total_bytes += static_cast<uint64_t>(count);
      const size_t room = limit_bytes - std::min(limit_bytes, kept.size());
      kept.append(chunk, std::min(room, static_cast<size_t>(count)));
      // A child that writes without pause must not keep us from looking at the clock.
      if (static_cast<size_t>(count) < sizeof chunk) return;
      break;
    }
  }
};

// Of a process and all that it has started by now; what it starts from here on inherits the limit. Refused only if the limit is above one
// that is in force already.
void limit_memory(pid_t process, uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  ::prlimit(process, RLIMIT_AS, &limit, nullptr);
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", process));
  for (pid_t child = 0; children >> child;) limit_memory(child, bytes);
}

}  // namespace

ProcessResult run_process(const ProcessOptions& options) {
  TOROID_CHECK(!options.argv.empty());
  const std::string& program = options.argv.front();
  Stopwatch watch;
  const Fd input =
      above_streams(options.input.empty() ? Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)) : memory_file(options.input, program));
  if (!input) throw_cannot_run(program, errno);
  Pipe output = make_pipe(program);
  Pipe errors = make_pipe(program);
  Pipe life = make_pipe(program);
  ChildProcess child({options.argv, options.folder, options.environment, options.inherited},
                     {input.get(), output.write.get(), errors.write.get(), life.write.get()});
  life.write.close();
  if (options.memory_limit_bytes > 0) {
    // Again, for a process that was being started meanwhile is in no list yet, and has the limits of before.
    for (int pass = 0; pass < 3; ++pass) {
      if (pass > 0) ::usleep(1000);
      limit_memory(child.pid(), options.memory_limit_bytes);
    }
  }
  output.write.close();
  errors.write.close();

  ProcessResult result;
  Stream streams[] = {{std::move(output.read), result.output, result.output_bytes},
                      {std::move(errors.read), result.errors, result.error_bytes}};
  const auto start = Clock::now();
  auto deadline = start + options.timeout;
  bool killed = false;
  while (!child.has_ended()) {
    const auto now = Clock::now();
    if (now >= deadline) {
      if (!result.timed_out) {
        result.timed_out = true;
        child.signal_group(SIGTERM);
        deadline = now + options.grace;
      } else if (!killed) {
        killed = true;
        child.signal_group(SIGKILL);
        deadline = now + std::chrono::hours(24);  // SIGKILL cannot be refused: only the kernel's own delay is left
      }
    }
    pollfd waits[] = {{streams[0].fd.get(), POLLIN, 0}, {streams[1].fd.get(), POLLIN, 0}, {child.pidfd(), POLLIN, 0}};
    auto pause = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    // Kernels before 5.3 and some sandboxes have no pidfd: then look again every millisecond.
    if (child.pidfd() < 0) pause = std::min(pause, milliseconds(1));
    pause = std::clamp(pause, milliseconds(0), milliseconds(60'000));
    if (::poll(waits, 3, static_cast<int>(pause.count())) < 0 && errno != EINTR) throw_cannot_run(program, errno);
    for (Stream& stream : streams) stream.drain(options.output_limit_bytes);
  }
  // Processes that the child left behind would hold the streams open and live on.
  child.signal_group(SIGKILL);
  end_holders(life.read);
  for (Stream& stream : streams) {
    for (uint64_t before = UINT64_MAX; stream.fd && before != stream.total_bytes;) {
      before = stream.total_bytes;
      stream.drain(options.output_limit_bytes);
    }
  }
  rusage usage = {};
  const int status = child.reap(usage);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  auto seconds_of = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  result.user_seconds = seconds_of(usage.ru_utime);
  result.system_seconds = seconds_of(usage.ru_stime);
  result.peak_memory_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  result.seconds = watch.seconds();
  return result;
}

std::string ProcessResult::outcome() const {
  if (timed_out) return fmt::format("did not end within its time and was killed after {:.1f} s", seconds);
  return describe_status(exit_code, signal);
}

std::string describe_command(const std::vector<std::string>& argv) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  std::string text;
  for (const std::string& word : argv) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace toroid
