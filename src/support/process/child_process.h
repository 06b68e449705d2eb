// A child process with an owner: started without a shell, ended with its whole process group when the owner goes.
//
// run_process (subprocess.h) is what most need; this is for those who talk to a child while it runs.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file/fd.h"

namespace toroid {

struct ChildOptions {
  std::vector<std::string> argv = {};                                 // argv[0] is searched in $PATH unless it holds a '/'
  std::filesystem::path folder = {};                                  // where it runs; empty: here
  std::vector<std::pair<std::string, std::string>> environment = {};  // set in addition to what is inherited …
  std::optional<std::vector<std::string>> inherited = {};             // … which is these variables, NAME or PREFIX*; none: all
};

// Descriptors of ours that the child gets as its standard streams, and as number 3 one that stays open as long as it or a process that it
// started lives, if it is not closed on purpose; it inherits no other. Each is above 2 (above_streams).
struct ChildStreams {
  int input, output, errors;
  int life = -1;
};

// Leads its own process group, with the default reaction to every signal.
class ChildProcess {
 public:
  // Throws Error{Environment} when the program cannot be started: "cannot run 'g++': no such program".
  ChildProcess(const ChildOptions& options, const ChildStreams& streams);
  ChildProcess(const ChildProcess&) = delete;
  // Kills the group and waits for the child.
  ~ChildProcess();

  pid_t pid() const { return pid_; }  // not positive once it is reaped
  // Becomes readable when the child ends; negative on kernels before 5.3 and in some sandboxes: then ask has_ended now and again.
  int pidfd() const { return pidfd_.get(); }
  void signal_group(int signal) const;
  // Leaves the child unreaped: its process id, and with it the group's, cannot be taken by somebody else yet.
  bool has_ended() const;
  // Waits for its end and returns the status as wait4 does. Only once.
  int reap(rusage& usage);

 private:
  pid_t pid_;
  Fd pidfd_;
};

// A descriptor above the standard streams: a host may have closed those, and the child's dup2 calls would then trample
// on each other.
Fd above_streams(Fd fd);

// Both ends are closed in programs that are started. Throws Error{Environment} with the program that it is for.
struct Pipe {
  Fd read;   // does not block
  Fd write;  // blocks, as programs expect of their streams
};
Pipe make_pipe(const std::string& program);

// Kills the processes that still hold the write end of `life` as their number 3: what a child started in sessions of their own, which
// signal_group does not reach. Returns when there is none, or after some seconds for those that cannot be killed. Our own write end must be
// closed.
void end_holders(const Fd& life);

// "cannot run 'g++': Too many open files", with the mend that fits the errno.
[[noreturn]] void throw_cannot_run(const std::string& program, int error_number);

// "exited with status 1", "was killed by signal 11 (Segmentation fault)": what wait4 reported. "succeeded" for status 0.
std::string describe_status(int exit_code, int signal);

}  // namespace toroid
