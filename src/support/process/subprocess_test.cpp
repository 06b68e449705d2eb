#include "support/process/subprocess.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"

namespace toroid {
namespace {
using namespace std::chrono_literals;

// Test programs are shell scripts for brevity; run_process itself never starts a shell.
ProcessResult run_script(std::string script, ProcessOptions options = {}) {
  options.argv = {"sh", "-c", std::move(script)};
  return run_process(options);
}

TEST(Subprocess, PassesArgumentsInputFolderAndEnvironment) {
  const TempFolder folder;
  const ProcessResult result = run_process({.argv = {"sh", "-c", "cat; pwd; echo \"$1|$ADDED\"", "sh", "a b; $HOME *"},
                                            .input = "from stdin\n",
                                            .folder = folder.path(),
                                            .environment = {{"ADDED", "1 2"}}});
  EXPECT_TRUE(result.ok()) << result.errors;
  EXPECT_EQ(result.output, "from stdin\n" + folder.path().string() + "\na b; $HOME *|1 2\n");
}

TEST(Subprocess, WithholdsVariables) {
  setenv("TOROID_TEST_KEPT", "kept", 1);
  setenv("TOROID_TEST_WITHHELD", "withheld", 1);
  const std::string script = "echo $TOROID_TEST_KEPT-$TOROID_TEST_WITHHELD-$ADDED";
  ProcessResult result =
      run_process({.argv = {"sh", "-c", script}, .environment = {{"ADDED", "1"}}, .inherited = {{"PATH", "TOROID_TEST_K*"}}});
  EXPECT_EQ(result.output, "kept--1\n");
  result = run_process({.argv = {"sh", "-c", script}});
  EXPECT_EQ(result.output, "kept-withheld-\n");
}

TEST(Subprocess, ReportsStatusSignalAndBothStreams) {
  ProcessResult result = run_script("echo out; echo err >&2; exit 3");
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.outcome(), "exited with status 3");
  result = run_script("kill -SEGV $$");
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(result.outcome(), "was killed by signal 11 (Segmentation fault)");
  EXPECT_GT(result.peak_memory_bytes, 100'000u);
}

TEST(Subprocess, MissingProgramIsATypedError) {
  try {
    run_process({.argv = {"no-such-program-here"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Environment);
    EXPECT_EQ(error.report(), "error: cannot run 'no-such-program-here': no such program\n  help: install it, or give its full path");
  }
}

TEST(Subprocess, MissingFolderIsNamed) {
  try {
    run_process({.argv = {"true"}, .folder = "/no/such/folder"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot enter /no/such/folder: No such file or directory");
  }
}

TEST(Subprocess, KeepsOnlySoMuchOutputButReadsItAll) {
  const ProcessResult result = run_script("head -c 50000000 /dev/zero; head -c 300 /dev/zero >&2", {.output_limit_bytes = 1000});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.output.size(), 1000u);
  EXPECT_EQ(result.output_bytes, 50'000'000u);
  EXPECT_EQ(result.errors.size(), 300u);
}

TEST(Subprocess, IgnoredInputDoesNotBlockOrKillUs) {
  EXPECT_TRUE(run_process({.argv = {"true"}, .input = std::string(4 << 20, 'x')}).ok());
}

TEST(Subprocess, AChildThatHangsIsKilled) {
  const Stopwatch watch;
  const ProcessResult result = run_script("trap '' TERM; echo begun; while :; do sleep 100; done", {.timeout = 200ms, .grace = 100ms});
  EXPECT_LT(watch.seconds(), 100);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.output, "begun\n");
  EXPECT_TRUE(result.outcome().starts_with("did not end within its time and was killed after 0.")) << result.outcome();
}

TEST(Subprocess, AnEndlessWriterIsKilled) {
  const ProcessResult result = run_process({.argv = {"yes"}, .timeout = 2s, .output_limit_bytes = 10});
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.output.size(), 10u);
}

TEST(Subprocess, NoOrphanSurvivesItsParent) {
  const Stopwatch watch;
  const ProcessResult result = run_script("sleep 1000 & echo $!");
  EXPECT_LT(watch.seconds(), 1000) << "an orphan that holds the stream open must not be waited for";
  const pid_t orphan = std::stoi(result.output);
  // Whoever reaps orphans here may take a moment, or never do it: a zombie counts as ended.
  auto is_running = [orphan] {
    if (kill(orphan, 0) != 0) return false;
    try {
      return read_file(fmt::format("/proc/{}/stat", orphan)).find(") Z ") == std::string::npos;
    } catch (const Error&) {
      return false;
    }
  };
  while (is_running() && watch.seconds() < 1000) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(is_running());
}

// In sessions of their own, where a signal to the group does not reach them.
TEST(Subprocess, NoDaemonSurvivesItsParent) {
  const std::string seconds = fmt::format("1000.{}", getpid());
  const Stopwatch watch;
  const ProcessResult result =
      run_script(fmt::format("for i in 1 2 3; do setsid sleep {} </dev/null >/dev/null 2>&1 & done; sleep 0.1", seconds));
  EXPECT_TRUE(result.ok());
  EXPECT_LT(watch.seconds(), 1000);
  EXPECT_FALSE(run_process({.argv = {"sh", "-c",
                                     fmt::format("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q 'sleep {}[ ]'", seconds)}})
                   .ok());
}

// A host may fork while a compiler runs: its child has our descriptors, and is none of the compiler's.
TEST(Subprocess, ACopyOfOurselvesIsLeftAlone) {
  pid_t copy = -1;
  std::thread forking([&] {
    std::this_thread::sleep_for(100ms);
    copy = fork();
    if (copy == 0) {
      ::usleep(1'500'000);
      _exit(7);
    }
  });
  EXPECT_TRUE(run_script("setsid sleep 1000 </dev/null >/dev/null 2>&1 & sleep 0.5").ok());
  forking.join();
  int status = 0;
  waitpid(copy, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Subprocess, InheritsNoDescriptorAndLeaksNone) {
  auto count_open = [] {
    size_t count = 0;
    DIR* folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr) ++count;
    closedir(folder);
    return count;
  };
  const size_t before = count_open();
  FILE* ours = fopen("/dev/null", "r");  // without O_CLOEXEC
  EXPECT_EQ(run_process({.argv = {"ls", "/proc/self/fd"}}).output, "0\n1\n2\n3\n4\n") << "3 says that it lives, 4 is ls's own";
  fclose(ours);
  EXPECT_EQ(count_open(), before);
}

TEST(Subprocess, RunsFromManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i, &right] {
      const std::string text = std::to_string(i);
      if (run_process({.argv = {"cat"}, .input = text}).output == text) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
}

TEST(Subprocess, DescribesCommandsForPasting) {
  EXPECT_EQ(describe_command({"g++", "-O3", "a b.cpp", "it's", ""}), "g++ -O3 'a b.cpp' 'it'\\''s' ''");
}

}  // namespace
}  // namespace toroid
