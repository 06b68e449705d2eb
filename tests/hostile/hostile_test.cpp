// A sample of hostile calls of every supported operator; docs/testing.md has the command for more.
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/file/file.h"
#include "graph/text/text.h"
#include "hostile/check.h"
#include "passes/decompose/engine/decompose.h"

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

// Calls most of which crashed, or took all memory or time, once.
TEST(HostileOperators, KnownCallsAreRefused) {
  std::istringstream lines(read_file(std::filesystem::path(TOROID_SOURCE_DIR) / "tests/hostile/refused_calls.txt"));
  size_t refused = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    try {
      Program program = parse_text(line);
      decompose(program);
      ADD_FAILURE() << "accepted: " << line;
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::InvalidModel || error.kind() == ErrorKind::Unsupported) << line << "\n" << error.report();
      ++refused;
    }
  }
  EXPECT_EQ(refused, 251u);
}

}  // namespace
}  // namespace toroid::hostile
