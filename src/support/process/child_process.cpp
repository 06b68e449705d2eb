#include "support/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"

extern char** environ;

namespace toroid {
namespace {

constexpr int kLife = STDERR_FILENO + 1;

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

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes,
                                          const std::optional<std::vector<std::string>>& inherited) {
  auto is_inherited = [&](std::string_view name) {
    return !inherited || std::any_of(inherited->begin(), inherited->end(), [&](std::string_view each) {
      return each.ends_with('*') ? name.starts_with(each.substr(0, each.size() - 1)) : name == each;
    });
  };
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == name; });
    if (!replaced && is_inherited(name)) result.emplace_back(text);
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

// The child's pid. Throws Error{Environment}.
pid_t spawn(const ChildOptions& options, const ChildStreams& streams) {
  TOROID_CHECK(!options.argv.empty());
  const std::string& program = options.argv.front();
  const std::optional<std::filesystem::path> path = find_program(program);
  if (!path) {
    throw Error(ErrorKind::Environment, fmt::format("cannot run '{}': no such program", program)).help("install it, or give its full path");
  }
  SpawnSetup setup;
  posix_spawn_file_actions_adddup2(&setup.actions, streams.input, 0);
  posix_spawn_file_actions_adddup2(&setup.actions, streams.output, 1);
  posix_spawn_file_actions_adddup2(&setup.actions, streams.errors, 2);
  if (streams.life >= 0) posix_spawn_file_actions_adddup2(&setup.actions, streams.life, kLife);
  posix_spawn_file_actions_addclosefrom_np(&setup.actions, streams.life >= 0 ? kLife + 1 : kLife);
  if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&setup.actions, options.folder.c_str());
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setpgroup(&setup.attributes, 0);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);

  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> variables = environment_with(options.environment, options.inherited);
  pid_t pid = -1;
  const int spawned = ::posix_spawn(&pid, std::filesystem::absolute(*path).c_str(), &setup.actions, &setup.attributes,
                                    pointers_to(arguments).data(), pointers_to(variables).data());
  if (spawned == ENOENT && !options.folder.empty() && !std::filesystem::is_directory(options.folder)) {
    throw file_error("enter", options.folder, ENOENT);
  }
  if (spawned != 0) throw_cannot_run(program, spawned);
  return pid;
}

}  // namespace

void throw_cannot_run(const std::string& program, int error_number) {
  const std::string reason = std::error_code(error_number, std::generic_category()).message();
  Error error(ErrorKind::Environment, fmt::format("cannot run '{}': {}", program, reason));
  switch (error_number) {
    case EFBIG: error.help("raise the limit on the size of files (ulimit -f)"); break;
    case EMFILE:
    case ENFILE: error.help("raise the limit on open files (ulimit -n)"); break;
    case EAGAIN: error.help("raise the limit on processes (ulimit -u)"); break;
    case ENOEXEC: error.help("check that the file is a program for this machine"); break;
    default: error.help("check the program's permissions and the machine's limits");
  }
  throw error;
}

ChildProcess::ChildProcess(const ChildOptions& options, const ChildStreams& streams)
    : pid_(spawn(options, streams)), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0))) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  signal_group(SIGKILL);
  rusage usage;
  reap(usage);
}

void ChildProcess::signal_group(int signal) const { ::kill(-pid_, signal); }

bool ChildProcess::has_ended() const {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
}

int ChildProcess::reap(rusage& usage) {
  int status = 0;
  while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

namespace {

// Whether a process has the pipe as number 3 and nowhere else. One that has our end of it too is a copy of ourselves that a fork made.
bool is_holder(const std::filesystem::path& process, const std::string& pipe) {
  std::error_code failure;
  int links = 0;
  for (std::filesystem::directory_iterator file(process / "fd", failure), end; !failure && file != end; file.increment(failure)) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(file->path(), ignored) != pipe) continue;
    if (file->path().filename() != std::to_string(kLife)) return false;
    ++links;
  }
  return links == 1;
}

bool is_closed_by_all(const Fd& life, int timeout_ms) {
  pollfd wait = {life.get(), POLLIN, 0};
  char dropped[256];
  return ::poll(&wait, 1, timeout_ms) > 0 && (wait.revents & POLLHUP) != 0 && ::read(life.get(), dropped, sizeof dropped) <= 0;
}

}  // namespace

void end_holders(const Fd& life) {
  constexpr int kMostRounds = 100;
  if (is_closed_by_all(life, 0) || is_closed_by_all(life, 10)) return;  // what was just killed takes a moment
  std::error_code failure;
  const std::string pipe = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", life.get()), failure).string();
  for (int round = 0; round < kMostRounds && !failure && !is_closed_by_all(life, 10); ++round) {
    bool found = false;
    for (std::filesystem::directory_iterator process("/proc", failure), end; !failure && process != end; process.increment(failure)) {
      const std::string name = process->path().filename().string();
      if (name.find_first_not_of("0123456789") != name.npos || !is_holder(process->path(), pipe)) continue;
      found = true;
      ::kill(static_cast<pid_t>(std::stol(name)), SIGKILL);
    }
    if (!found) return;
  }
}

Fd above_streams(Fd fd) {
  if (!fd || fd.get() > STDERR_FILENO) return fd;
  return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

Pipe make_pipe(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_cannot_run(program, errno);
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  pipe.read = above_streams(std::move(pipe.read));
  pipe.write = above_streams(std::move(pipe.write));
  if (!pipe.read || !pipe.write) throw_cannot_run(program, errno);
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

std::string describe_status(int exit_code, int signal) {
  if (signal != 0) return fmt::format("was killed by signal {} ({})", signal, ::sigdescr_np(signal));
  if (exit_code != 0) return fmt::format("exited with status {}", exit_code);
  return "succeeded";
}

}  // namespace toroid
