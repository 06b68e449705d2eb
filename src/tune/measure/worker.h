// A tuning worker as the compilation sees it: asked one thing at a time, replaced when it dies.
//
//   Worker worker({.argv = {"/proc/self/exe", "tuning-worker"}});
//   const Reply reply = worker.ask({.action = Action::Check, .choice = "packed"}, 10s);
//   if (const Fault* fault = std::get_if<Fault>(&reply)) …   // crashed, hung, … and the process is gone
//
// The process is started by the first request, says that it is there (a ping, so that nobody's time includes the start) and is
// reused until it dies or stop() is called. It leads a process group of its own, all of which ends with it; it ends itself when
// this process does.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tune/measure/message.h"

namespace toroid::tune {

struct WorkerOptions {
  std::vector<std::string> argv = {};                                  // a program that calls serve_tuning (serve.h)
  std::vector<std::pair<std::string, std::string>> environment = {};   // in addition to what is inherited
  std::chrono::milliseconds start_timeout = std::chrono::seconds(10);  // until it answers the ping
  // How a worker that does not answer is ended: nobody listens any more and it may go …
  std::chrono::milliseconds graceful = std::chrono::seconds(3);
  // … then SIGTERM, and after this SIGKILL.
  std::chrono::milliseconds terminate = std::chrono::seconds(1);
  uint64_t output_limit_bytes = 1 << 20;  // what a worker may print before it is ended for it
};

// Why there is no answer. The words continue "candidate …".
struct Fault {
  bool by_candidate = true;  // false: the machine may have ended it, as when memory runs out
  std::string reason;        // "was killed by signal 11 (Segmentation fault): accessed memory 64 bytes beyond the end of input 1"
};
using Reply = std::variant<Answer, Fault>;

class Worker {
 public:
  explicit Worker(WorkerOptions options);
  Worker(const Worker&) = delete;
  ~Worker();

  // Throws Error{Environment} when no process can be started, Error{ToolFailed} when one does not answer the ping. Not for
  // several threads at once. A call from another thread than the one before begins a fresh process: Linux ends it with the thread
  // that started it.
  Reply ask(Request request, std::chrono::milliseconds timeout);
  // Grows with each process that is started: what was prepared in an earlier one is gone.
  int generation() const { return generation_; }
  // Ends the process, if there is one.
  void stop();

 private:
  struct Process;
  void start();
  Reply exchange(Request request, std::chrono::milliseconds timeout);

  WorkerOptions options_;
  std::unique_ptr<Process> process_;  // null: none runs
  int generation_ = 0;
  uint64_t requests_ = 0;
};

// The command of this very program, for programs that have the command 'tuning-worker' as toroid does; or of the program that
// set_own_command names.
std::vector<std::string> own_tuning_worker();
// Where toroid is a library: the command line that starts its command, the program's path first. Empty: this program.
void set_own_command(std::vector<std::string> argv);

}  // namespace toroid::tune
