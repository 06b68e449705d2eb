#include "support/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "support/clock.h"
#include "support/error.h"
#include "support/fd.h"
#include "support/file.h"

extern char** environ;

namespace toroid {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& program, int error_number) {
  const std::string reason = std::error_code(error_number, std::generic_category()).message();
  Error error(ErrorKind::Environment, fmt::format("cannot run '{}': {}", program, reason));
  switch (error_number) {
    case EMFILE:
    case ENFILE: error.help("raise the limit on open files (ulimit -n)"); break;
    case EAGAIN: error.help("raise the limit on processes (ulimit -u)"); break;
    case ENOEXEC: error.help("check that the file is a program for this machine"); break;
    default: error.help("check the program's permissions and the machine's limits");
  }
  throw error;
}

struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

// Owns the child until it is reaped.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  ~Child() {
    if (pid_ <= 0) return;
    signal_group(SIGKILL);
    rusage usage;
    reap(usage);
  }

  int pidfd() const { return pidfd_.get(); }
  void signal_group(int signal) const { ::kill(-pid_, signal); }
  // Leaves the child unreaped: its process id, and with it the group's, cannot be taken by somebody else yet.
  bool has_ended() const {
    siginfo_t info = {};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }
  int reap(rusage& usage) {
    int status = 0;
    while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
  Fd pidfd_;
};

// A descriptor above the standard streams: a host may have closed those, and the child's dup2 calls would then trample
// on each other.
Fd above_streams(Fd fd) {
  if (!fd || fd.get() > STDERR_FILENO) return fd;
  return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

struct Pipe {
  Fd read, write;
};

Pipe make_pipe(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(program, errno);
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  pipe.read = above_streams(std::move(pipe.read));
  pipe.write = above_streams(std::move(pipe.write));
  if (!pipe.read || !pipe.write) fail(program, errno);
  // Only our end: the child's streams must block as any program expects.
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

Fd memory_file(std::string_view contents, const std::string& program) {
  Fd fd(::memfd_create("toroid-stdin", MFD_CLOEXEC));
  if (!fd) fail(program, errno);
  for (size_t done = 0; done < contents.size();) {
    const ssize_t count = ::write(fd.get(), contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(program, errno);
    done += static_cast<size_t>(count);
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes,
                                          const std::vector<std::string>& unset) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == name; });
    const bool dropped = std::find(unset.begin(), unset.end(), name) != unset.end();
    if (!replaced && !dropped) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
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

}  // namespace

ProcessResult run_process(const ProcessOptions& options) {
  TOROID_CHECK(!options.argv.empty());
  const std::string& program = options.argv.front();
  const std::optional<std::filesystem::path> path = find_program(program);
  if (!path) {
    throw Error(ErrorKind::Environment, fmt::format("cannot run '{}': no such program", program))
        .help("install it, or give its full path");
  }
  Stopwatch watch;
  const Fd input = above_streams(options.input.empty() ? Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC))
                                                       : memory_file(options.input, program));
  if (!input) fail(program, errno);
  Pipe output = make_pipe(program);
  Pipe errors = make_pipe(program);

  SpawnSetup setup;
  posix_spawn_file_actions_adddup2(&setup.actions, input.get(), 0);
  posix_spawn_file_actions_adddup2(&setup.actions, output.write.get(), 1);
  posix_spawn_file_actions_adddup2(&setup.actions, errors.write.get(), 2);
  posix_spawn_file_actions_addclosefrom_np(&setup.actions, 3);
  if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&setup.actions, options.folder.c_str());
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setpgroup(&setup.attributes, 0);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);

  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> variables = environment_with(options.environment, options.unset);
  pid_t pid = -1;
  const int spawned = ::posix_spawn(&pid, std::filesystem::absolute(*path).c_str(), &setup.actions, &setup.attributes,
                                    pointers_to(arguments).data(), pointers_to(variables).data());
  if (spawned != 0) {
    if (spawned == ENOENT && !options.folder.empty() && !std::filesystem::is_directory(options.folder)) {
      throw file_error("enter", options.folder, ENOENT);
    }
    fail(program, spawned);
  }
  Child child(pid);
  if (options.memory_limit_bytes > 0) {
    // At once, so that what the child starts inherits it. Refused only if the limit is above one that is in force already.
    const rlimit limit{options.memory_limit_bytes, options.memory_limit_bytes};
    ::prlimit(pid, RLIMIT_AS, &limit, nullptr);
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
    if (::poll(waits, 3, static_cast<int>(pause.count())) < 0 && errno != EINTR) fail(program, errno);
    for (Stream& stream : streams) stream.drain(options.output_limit_bytes);
  }
  // Processes that the child left behind would hold the streams open and live on.
  child.signal_group(SIGKILL);
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
  auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  result.user_seconds = seconds_of(usage.ru_utime);
  result.system_seconds = seconds_of(usage.ru_stime);
  result.peak_memory_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  result.seconds = watch.seconds();
  return result;
}

std::string ProcessResult::outcome() const {
  if (timed_out) return fmt::format("did not end within its time and was killed after {:.1f} s", seconds);
  if (signal != 0) return fmt::format("was killed by signal {} ({})", signal, ::sigdescr_np(signal));
  if (exit_code != 0) return fmt::format("exited with status {}", exit_code);
  return "succeeded";
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
