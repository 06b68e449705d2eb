// The worker as a process: how it is started, ended and replaced.
#include "tune/measure/worker.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "planted_choices.h"

namespace toroid::tune {
namespace {
using namespace std::chrono_literals;

WorkerOptions quick_options() { return {.argv = {"/proc/self/exe", "tuning-worker"}, .graceful = 200ms, .terminate = 100ms}; }

Request prepare() { return {.action = Action::Prepare, .problem = "double.f32(f32[1000]) -> f32[1000]", .choice = "quick"}; }
Request check(std::string choice) { return {.action = Action::Check, .choice = std::move(choice)}; }

// The fault's words, or "answered".
std::string fault_of(const Reply& reply) {
  const Fault* fault = std::get_if<Fault>(&reply);
  return fault != nullptr ? fault->reason : "answered";
}

// Whoever reaps orphans here may take a moment, or never do it: a zombie counts as ended.
bool is_running(pid_t pid) {
  if (::kill(pid, 0) != 0) return false;
  try {
    return read_file(fmt::format("/proc/{}/stat", pid)).find(") Z ") == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

bool ends_within_seconds(pid_t pid, double seconds) {
  const Stopwatch watch;
  while (is_running(pid) && watch.seconds() < seconds) std::this_thread::sleep_for(1ms);
  return !is_running(pid);
}

// Waits until a process has left its id there.
pid_t pid_in(const std::filesystem::path& file) {
  pid_t pid = 0;
  for (const Stopwatch watch; pid == 0 && watch.seconds() < 10; std::this_thread::sleep_for(1ms)) std::ifstream(file) >> pid;
  return pid;
}

size_t open_files() {
  size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

TEST(TuningWorker, IsReusedUntilItDies) {
  Worker worker(quick_options());
  EXPECT_EQ(worker.generation(), 0) << "nothing is started that nobody needs";
  EXPECT_EQ(fault_of(worker.ask(prepare(), 10s)), "answered");
  const Reply reply = worker.ask(check("quick"), 10s);
  EXPECT_EQ(std::get<Answer>(reply).verdict, Verdict::Done);
  EXPECT_EQ(worker.generation(), 1);
  EXPECT_EQ(fault_of(worker.ask(check("exits-with-status"), 10s)), "exited with status 3");
  const Reply unprepared = worker.ask(check("quick"), 10s);
  EXPECT_EQ(worker.generation(), 2);
  EXPECT_EQ(std::get<Answer>(unprepared).message, "no problem was prepared");
}

TEST(TuningWorker, WhatAKernelStartedEndsWithIt) {
  const TempFolder folder;
  const ScopedVariable variable(kPidFileVariable, (folder.path() / "pid").string());
  Worker worker(quick_options());
  worker.ask(prepare(), 10s);
  worker.ask(check("leaves-a-child"), 10s);
  const pid_t child = pid_in(folder.path() / "pid");
  ASSERT_GT(child, 0);
  EXPECT_TRUE(ends_within_seconds(child, 5));
}

TEST(TuningWorker, OneThatDiesWhileNobodyAsksIsReplaced) {
  Worker worker(quick_options());
  worker.ask(prepare(), 10s);
  const int child = std::stoi(read_file(fmt::format("/proc/self/task/{}/children", ::getpid())));
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // not reaped: that is the worker's owner's part
  EXPECT_EQ(fault_of(worker.ask({.action = Action::Ping}, 10s)), "answered") << "no candidate is to blame";
  EXPECT_EQ(worker.generation(), 2);
}

TEST(TuningWorker, AnotherThreadGetsAFreshOne) {
  Worker worker(quick_options());
  std::thread([&] { worker.ask(prepare(), 10s); }).join();
  // Linux has ended the process with its thread, or will in a moment: this must not look like the candidate's fault.
  EXPECT_EQ(fault_of(worker.ask({.action = Action::Ping}, 10s)), "answered");
  EXPECT_EQ(worker.generation(), 2);
}

TEST(TuningWorker, LeavesNothingOpen) {
  const size_t before = open_files();
  {
    Worker worker(quick_options());
    worker.ask(prepare(), 10s);
    worker.ask(check("crashes"), 10s);
    worker.ask(prepare(), 10s);
  }
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not waited for";
}

// Each step of ending it: it goes by itself when nobody listens, or needs SIGKILL because it is stopped.
TEST(TuningWorker, OneThatHangsIsEnded) {
  Worker worker(quick_options());
  for (const char* choice : {"hangs", "ignores-sigterm", "stops"}) {
    worker.ask(prepare(), 10s);
    const Stopwatch watch;
    EXPECT_EQ(fault_of(worker.ask(check(choice), 200ms)), "did not end within 0.2 s");
    EXPECT_GE(watch.seconds(), 0.2);
  }
  EXPECT_EQ(worker.generation(), 3);
}

// Killed, the parent cannot end anything: the worker must do it, also when its kernel never returns or is stopped.
TEST(TuningWorker, NoneSurvivesItsParent) {
  for (const char* choice : {"hangs", "stops"}) {
    const TempFolder folder;
    const std::filesystem::path file = folder.path() / "pid";
    const pid_t parent = ::fork();
    if (parent == 0) {
      Worker worker(quick_options());
      worker.ask(prepare(), 10s);
      // Its process id: a kernel that is stopped cannot tell it.
      std::thread watcher([&] {
        const std::string children = read_file(fmt::format("/proc/self/task/{}/children", ::getpid()));
        std::ofstream(file) << children << std::flush;
      });
      watcher.join();
      worker.ask(check(choice), 60s);
      ::_exit(0);
    }
    const pid_t worker = pid_in(file);
    ASSERT_GT(worker, 0) << choice;
    std::this_thread::sleep_for(50ms);  // so that the kernel has begun
    EXPECT_TRUE(is_running(worker));
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    EXPECT_TRUE(ends_within_seconds(worker, 5)) << choice;
  }
}

TEST(TuningWorker, OneThatCannotBeStartedIsAnError) {
  Worker missing({.argv = {"no-such-program-here"}});
  EXPECT_EQ(error_of([&] { missing.ask({}, 1s); }).report(),
            "error: cannot run 'no-such-program-here': no such program\n  help: install it, or give its full path");
  Worker failing({.argv = {"false"}});
  EXPECT_EQ(error_of([&] { failing.ask({}, 1s); }).report(),
            "error: the tuning worker exited with status 1\n  command: false\n"
            "  help: run the command by hand: it should wait for requests");
  Worker silent({.argv = {"sleep", "100"}, .start_timeout = 100ms, .graceful = 10ms, .terminate = 100ms});
  EXPECT_EQ(error_of([&] { silent.ask({}, 1s); }).message(), "the tuning worker did not end within 0.1 s");
  Worker confused({.argv = {"sh", "-c", "printf '\\001\\000\\000\\000\\000\\000\\000\\000x' >&0"}});
  EXPECT_EQ(error_of([&] { confused.ask({}, 1s); }).message(), "the tuning worker gave an answer to nothing that was asked");
}

}  // namespace
}  // namespace toroid::tune
