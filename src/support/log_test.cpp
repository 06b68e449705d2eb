#include "support/log.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace toroid {
namespace {

TEST(Log, ShowsWarningsOnStderrAndHidesTheRest) {
  if (std::getenv("TOROID_LOG") != nullptr) GTEST_SKIP() << "TOROID_LOG is set";
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  log_warn("the cache in {} is {}", "/tmp", "full");
  log_info("hidden");
  log_debug("hidden {}", 1);
  log_text(LogLevel::Error, "braces {} are text here");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "toroid: warning: the cache in /tmp is full\ntoroid: error: braces {} are text here\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_FALSE(log_enabled(LogLevel::Debug));
  EXPECT_TRUE(log_enabled(LogLevel::Warn));
}

}  // namespace
}  // namespace toroid
