#include "tune/measure/worker.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "support/process/child_process.h"
#include "support/process/subprocess.h"

namespace toroid::tune {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct Channel {
  Fd ours, theirs;
};

Channel make_channel(const std::string& program) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_cannot_run(program, errno);
  Channel channel{above_streams(Fd(ends[0])), above_streams(Fd(ends[1]))};
  if (!channel.ours || !channel.theirs) throw_cannot_run(program, errno);
  return channel;
}

// The last line that was printed, printable and short, as what follows a colon; else nothing.
std::string last_words(std::string_view printed) {
  while (!printed.empty() && printed.back() == '\n') printed.remove_suffix(1);
  const size_t line = printed.rfind('\n');
  if (line != std::string_view::npos) printed.remove_prefix(line + 1);
  constexpr size_t kMost = 300;
  std::string words;
  for (char c : printed.substr(0, kMost)) words += c >= ' ' && c < 127 ? c : '?';
  return words.empty() ? "" : ": " + words;
}

// "was killed by signal 11 (Segmentation fault)".
std::string end_of(int status) {
  if (WIFSIGNALED(status)) return describe_status(0, WTERMSIG(status));
  if (WEXITSTATUS(status) == 0) return "exited with status 0 instead of returning";
  return describe_status(WEXITSTATUS(status), 0);
}

}  // namespace

// One process.
struct Worker::Process {
  Process(const WorkerOptions& options, Channel ends, Pipe printed)
      : child({.argv = options.argv, .environment = options.environment}, {ends.theirs.get(), printed.write.get(), printed.write.get()}),
        channel(std::move(ends.ours)),
        output(std::move(printed.read)) {}

  // Returns false when the socket's other end is closed.
  bool receive() {
    for (char chunk[1 << 12];;) {
      const ssize_t count = ::recv(channel.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno == EAGAIN;
      if (count == 0) return false;
      received.append(chunk, static_cast<size_t>(count));
    }
  }

  // Keeps the end of what is printed. Once around, so that an endless writer does not keep us from the clock.
  void read_output() {
    char chunk[1 << 16];
    const ssize_t count = ::read(output.get(), chunk, sizeof chunk);
    if (count == 0) output.close();  // it would end every wait at once
    if (count <= 0) return;
    constexpr size_t kKept = 4096;
    printed_bytes += static_cast<uint64_t>(count);
    printed.append(chunk, static_cast<size_t>(count));
    if (printed.size() > kKept) printed.erase(0, printed.size() - kKept);
  }

  void wait_until(Clock::time_point deadline, bool for_messages) {
    // Without a pidfd the end is looked for every few milliseconds.
    auto pause = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (child.pidfd() < 0) pause = std::min(pause, milliseconds(2));
    pollfd waits[] = {{child.pidfd(), POLLIN, 0}, {output.get(), POLLIN, 0}, {channel.get(), POLLIN, 0}};
    ::poll(waits, for_messages ? 3 : 2, static_cast<int>(std::clamp<int64_t>(pause.count(), 0, 60'000)));
  }

  bool ends_within(milliseconds time) {
    const auto deadline = Clock::now() + time;
    while (!child.has_ended()) {
      if (Clock::now() >= deadline) return false;
      wait_until(deadline, false);
      read_output();
    }
    return true;
  }

  // The status as wait4 gives it; whatever the child started ends too.
  int reap() {
    child.signal_group(SIGKILL);
    rusage usage;
    return child.reap(usage);
  }

  ChildProcess child;
  Fd channel;
  Fd output;
  std::string received;  // not yet a whole frame
  std::string printed;   // its end
  uint64_t printed_bytes = 0;
  std::thread::id starter = std::this_thread::get_id();
};

Worker::Worker(WorkerOptions options) : options_(std::move(options)) { TOROID_CHECK(!options_.argv.empty()); }
Worker::~Worker() { stop(); }

void Worker::stop() {
  if (!process_) return;
  process_->channel.close();
  if (!process_->ends_within(options_.graceful)) {
    process_->child.signal_group(SIGTERM);
    // SIGKILL follows in any case, for the group.
    process_->ends_within(options_.terminate);
  }
  process_->reap();
  process_.reset();
}

void Worker::start() {
  const std::string& program = options_.argv.front();
  process_ = std::make_unique<Process>(options_, make_channel(program), make_pipe(program));
  ++generation_;
  const Reply reply = exchange({.action = Action::Ping}, options_.start_timeout);
  if (const Fault* fault = std::get_if<Fault>(&reply)) {
    throw Error(ErrorKind::ToolFailed, fmt::format("the tuning worker {}", fault->reason))
        .at(fmt::format("command: {}", describe_command(options_.argv)))
        .help("run the command by hand: it should wait for requests");
  }
}

Reply Worker::ask(Request request, milliseconds timeout) {
  // One that died since the last answer did so on its own: no candidate is to blame.
  if (process_ && (process_->starter != std::this_thread::get_id() || process_->child.has_ended())) stop();
  if (!process_) start();
  return exchange(std::move(request), timeout);
}

Reply Worker::exchange(Request request, milliseconds timeout) {
  request.number = ++requests_;
  Process& process = *process_;
  process.printed_bytes = 0;
  process.printed.clear();
  const std::string frame = frame_of(request);
  // Requests are small and the socket is empty, so this blocks nobody. When the child is gone, what follows finds out.
  [[maybe_unused]] const ssize_t sent = ::send(process.channel.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);

  const auto deadline = Clock::now() + timeout;
  auto given_up = [&](std::string reason) {
    process.read_output();
    reason += last_words(process.printed);
    stop();
    return Fault{.reason = std::move(reason)};
  };
  for (;;) {
    const bool ended = process.child.has_ended();  // before reading: what it wrote last is then there
    process.read_output();
    const bool open = process.receive();
    if (const std::optional<std::string> contents = take_frame(process.received)) {
      const std::optional<Answer> answer = answer_of(*contents);
      if (!answer || answer->number != request.number) return given_up("gave an answer to nothing that was asked");
      return *answer;
    }
    if (process.printed_bytes > options_.output_limit_bytes) {
      return given_up(fmt::format("printed more than {} bytes", options_.output_limit_bytes));
    }
    if (ended) {
      process.read_output();
      const std::string words = last_words(process.printed);
      const int status = process.reap();
      process_.reset();
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;  // not by us
      return Fault{.by_candidate = !killed, .reason = end_of(status) + words};
    }
    if (Clock::now() >= deadline)
      return given_up(fmt::format("did not end within {:.1f} s", std::chrono::duration<double>(timeout).count()));
    // A socket that is closed would end every wait at once; then only the child's end and the deadline are left.
    process.wait_until(deadline, open);
  }
}

namespace {
std::mutex command_mutex;
std::vector<std::string>& own_command() {
  static std::vector<std::string> command;
  return command;
}
}  // namespace

void set_own_command(std::vector<std::string> argv) {
  const std::lock_guard lock(command_mutex);
  own_command() = std::move(argv);
}

std::vector<std::string> own_tuning_worker() {
  const std::lock_guard lock(command_mutex);
  std::vector<std::string> argv = own_command();
  if (argv.empty()) argv.emplace_back("/proc/self/exe");
  argv.emplace_back("tuning-worker");
  return argv;
}

}  // namespace toroid::tune
