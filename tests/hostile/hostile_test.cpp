// A sample of hostile calls of every supported operator; docs/testing.md has the command for more.
#include <gtest/gtest.h>

#include "hostile/check.h"

namespace toroid::hostile {
namespace {

TEST(HostileOperators, AreAnsweredByAProgramOrAnErrorThatNamesThem) {
  const Summary summary = check({.seed = 1, .calls = 5});
  EXPECT_GT(summary.operators, 2700u);
  EXPECT_GT(summary.refused, summary.calls / 10) << "the calls are not hostile";
  EXPECT_GT(summary.evaluated, summary.calls / 20) << "the calls are refused too early";
  for (const Failure& failure : summary.failures)
    ADD_FAILURE() << failure.op << "/" << failure.seed << ": " << failure.what << "\n" << failure.program;
}

}  // namespace
}  // namespace toroid::hostile
