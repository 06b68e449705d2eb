#include "tune/measure/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/file/fd.h"
#include "tune/measure/guarded_tensor.h"
#include "tune/measure/message.h"
#include "tune/measure/trial.h"

namespace toroid::tune {
namespace {

// The socket under a number that kernels do not use by accident; the streams 0 and 1 are made harmless.
Fd take_channel() {
  Fd channel(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return channel;
}

// A kernel that never returns keeps the process from seeing that nobody waits any more; this thread sees it.
void end_with(const Fd& channel) {
  std::thread([file = channel.get()] {
    pollfd hangup{file, POLLRDHUP, 0};
    while (::poll(&hangup, 1, -1) <= 0) {
    }
    ::_exit(0);
  }).detach();
}

bool send_all(const Fd& channel, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(channel.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

Answer answer_to(const Request& request, const TrialMaker& make, std::unique_ptr<Trial>& trial) {
  Answer answer{.number = request.number};
  try {
    if (request.action == Action::Prepare) {
      trial.reset();  // two problems at once may be more than there is memory for
      trial = make(request);
    } else if (request.action != Action::Ping && !trial) {
      throw Error(ErrorKind::Internal, "no problem was prepared");
    } else if (request.action == Action::Check) {
      Trial::Check check = trial->check(request.choice);
      if (check.fault) answer = {request.number, Verdict::Wrong, std::move(*check.fault)};
      answer.seconds = check.seconds;
    } else if (request.action == Action::Provide) {
      trial->provide(request.choice);
    } else if (request.action == Action::Time) {
      answer.seconds = trial->time_s(request.choice, request.repetitions, request.cold != 0);
    }
  } catch (const Error& error) {
    answer = {request.number, Verdict::Refused, error.message()};
  } catch (const std::exception& error) {
    answer = {request.number, Verdict::Refused, error.what()};
  }
  return answer;
}

}  // namespace

int serve_tuning(const TrialMaker& make) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also ends a process that is stopped
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const Fd channel = take_channel();
  end_with(channel);
  report_bad_accesses();

  std::unique_ptr<Trial> trial;
  std::string received;
  for (char chunk[1 << 12];;) {
    const ssize_t count = ::recv(channel.get(), chunk, sizeof chunk, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return 0;
    received.append(chunk, static_cast<size_t>(count));
    while (const std::optional<std::string> contents = take_frame(received)) {
      const std::optional<Request> request = request_of(*contents);
      if (!request || !send_all(channel, frame_of(answer_to(*request, make, trial)))) return 1;
    }
  }
}

}  // namespace toroid::tune
