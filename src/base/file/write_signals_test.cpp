#include "base/file/write_signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error_for_test.h"
#include "base/file/fd.h"
#include "base/file/file.h"

namespace toroid {
namespace {

TEST(WriteSignals, AFileBeyondTheLimitIsAnErrorAndNoSignal) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit = {1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Error error = error_of([&] { write_file_atomically(folder.path() / "file", std::string(5000, 'x')); });
    sigset_t pending;
    ::sigpending(&pending);
    const bool well = error.message() == "cannot write " + (folder.path() / "file").string() + ": File too large" &&
                      error.help_text() == "raise the limit on the size of files (ulimit -f)" && sigismember(&pending, SIGXFSZ) == 0;
    ::_exit(well ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(WriteSignals, APipeWhoseReaderLeavesIsAnErrorAndNoSignal) {
  const TempFolder folder;
  const std::filesystem::path fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    std::thread reader([&] { const Fd fd(::open(fifo.c_str(), O_RDONLY | O_CLOEXEC)); });
    const Error error = error_of([&] { write_file_atomically(fifo, std::string(500'000, 'x')); });
    reader.join();
    ::_exit(error.message() == "cannot write " + fifo.string() + ": Broken pipe" ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(WriteSignals, TheThreadsMaskIsAsBefore) {
  sigset_t before, during, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    const WriteSignalsBlock outer, inner;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &during);
  }
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&during, SIGXFSZ), 1);
  EXPECT_EQ(sigismember(&after, SIGXFSZ), sigismember(&before, SIGXFSZ));
}

}  // namespace
}  // namespace toroid
