// A child process under ptrace, one of whose system calls is meddled with: the process is killed just before it, or the call fails, or
// it moves fewer bytes than asked for. Only calls on files below a folder count, whichever thread makes them. Everything else is as
// always: the same libraries, nothing preloaded.
//
//   for (int64_t n = 1; run_traced(folder, {.deed = Deed::Kill, .at = n}, use_the_store).calls >= n; ++n) look_at_the_store();
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

namespace toroid::reliability {

enum class Deed { Nothing, Kill, Fail, FailFromThere, Shorten };

struct Meddling {
  Deed deed = Deed::Nothing;
  int64_t at = 0;        // the first call is 1
  int error_number = 0;  // of Fail and FailFromThere; then only calls that can fail so count
};

struct TracedEnd {
  int64_t calls;                 // that counted
  int status;                    // as waitpid gives it
  std::set<std::string> opened;  // paths of all files that it opened or tried to, with Deed::Nothing
};

// False on machines that it is not written for, where ptrace is forbidden, and with a sanitizer.
bool can_trace();

// Needs a process with one thread and no other children. A child that does not end within two minutes is killed by SIGALRM.
TracedEnd run_traced(const std::filesystem::path& folder, const Meddling& meddling, const std::function<int()>& body);

}  // namespace toroid::reliability
