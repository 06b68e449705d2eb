// Runs a program and waits for it: no shell, a limit on time, a limit on what is kept of its output.
//
//   ProcessResult result = run_process({.argv = {"g++", "-c", "-"}, .input = source, .timeout = 60s});
//   if (!result.ok()) throw Error(ErrorKind::ToolFailed, describe_command(argv) + " " + result.outcome());
//
// The child leads its own process group. When it ends or its time is up, every process of the group is ended, and of those that it started
// in sessions of their own each that kept its descriptor 3 open, so no orphan survives. It inherits its three streams and that one. Input
// comes from an anonymous memory file, so a child that never reads it cannot block us.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toroid {

struct ProcessOptions {
  std::vector<std::string> argv = {};                                 // argv[0] is searched in $PATH unless it holds a '/'
  std::string_view input = {};                                        // the child's standard input
  std::filesystem::path folder = {};                                  // where it runs; empty: here
  std::vector<std::pair<std::string, std::string>> environment = {};  // set in addition to what is inherited …
  std::optional<std::vector<std::string>> inherited = {};             // … which is these variables, NAME or PREFIX*; none: all
  std::chrono::milliseconds timeout = std::chrono::minutes(10);       // then SIGTERM …
  std::chrono::milliseconds grace = std::chrono::milliseconds(500);   // … and after this, SIGKILL
  uint64_t memory_limit_bytes = 0;                                    // of the address space of each of its processes; 0: no limit
  size_t output_limit_bytes = 1 << 20;                                // kept of each stream; the rest is read and dropped
};

struct ProcessResult {
  int exit_code = -1;  // when it exited by itself
  int signal = 0;      // when a signal ended it
  bool timed_out = false;
  std::string output;         // standard output
  std::string errors;         // standard error
  uint64_t output_bytes = 0;  // written in all, kept or not
  uint64_t error_bytes = 0;
  double seconds = 0;  // wall clock
  double user_seconds = 0;
  double system_seconds = 0;
  uint64_t peak_memory_bytes = 0;

  bool ok() const { return exit_code == 0 && signal == 0 && !timed_out; }
  // "succeeded", "exited with status 1", "was killed by signal 11 (Segmentation fault)", "did not end within 2.0 s and
  // …".
  std::string outcome() const;
};

// Throws Error{Environment} when the program cannot be started: "cannot run 'g++': no such program".
ProcessResult run_process(const ProcessOptions& options);

// The command as one could paste it into a shell. For messages only.
std::string describe_command(const std::vector<std::string>& argv);

}  // namespace toroid
