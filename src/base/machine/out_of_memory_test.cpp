#include "base/machine/out_of_memory.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"

namespace toroid {
namespace {

constexpr const char* kHelp = "close other programs, raise the limit on memory (ulimit -v), or run on a larger machine";

TEST(OutOfMemory, SaysWhatWasBeingDone) {
  const Error error = error_of([] {
    ErrorContext context("importing x.pt2");
    with_typed_memory("compiling", []() -> int { throw std::bad_alloc(); });
  });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.report(), std::string("error: out of memory while compiling\n  while importing x.pt2\n  help: ") + kHelp);
}

TEST(OutOfMemory, SaysHowMuchWasAskedFor) {
  const Error error =
      error_of([] { with_typed_memory("running", [] { asking_for(4096, "a tensor of shape [1024]", [] { throw std::bad_alloc(); }); }); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.message(), "out of memory: 4096 bytes for a tensor of shape [1024]");
  EXPECT_EQ(error.help_text(), kHelp);
}

TEST(OutOfMemory, SaysThatThereAreNoMoreThreads) {
  auto refused = [](std::errc code) {
    return error_of([&] { with_typed_memory("running", [&] { throw std::system_error(std::make_error_code(code)); }); });
  };
  EXPECT_EQ(refused(std::errc::resource_unavailable_try_again).message(), "no more threads while running");
  EXPECT_EQ(refused(std::errc::not_enough_memory).message(), "out of memory while running");
  EXPECT_THROW(refused(std::errc::permission_denied), std::system_error) << "that is not about memory or threads";
}

TEST(OutOfMemory, LeavesOtherResultsAlone) {
  int value = 1;
  int& reference = with_typed_memory("", [&]() -> int& { return value; });
  EXPECT_EQ(&reference, &value);
  EXPECT_EQ(asking_for(8, "", [] { return 2; }), 2);
  EXPECT_THROW(with_typed_memory("", [] { throw 3; }), int);
}

}  // namespace
}  // namespace toroid
