#include "base/fail.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"

namespace toroid {
namespace {

TEST(Fail, ThrowsAnErrorOfTheArguments) {
  const std::string name = "x";
  const Error error = error_of([&] { fail(ErrorKind::InvalidInput, "{} has {} dimensions", name, 3); });
  EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
  EXPECT_EQ(error.report(), "error: x has 3 dimensions");
}

TEST(Fail, SaysTheNextStepAndWhereItWas) {
  ErrorContext context("loading {}", "m.so");
  const Error error = error_of([] { fail(ErrorKind::Environment, Help{"copy it again"}, "it is damaged"); });
  EXPECT_EQ(error.report(), "error: it is damaged\n  while loading m.so\n  help: copy it again");
}

}  // namespace
}  // namespace toroid
