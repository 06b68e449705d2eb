#include "support/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/sinks.h"

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

TEST(Log, GoesToASinkInThePlaceOfStderr) {
  std::string lines;
  const auto write = [](void* user, LogLevel level, std::string_view text) noexcept {
    static_cast<std::string*>(user)->append(level == LogLevel::Error ? "!" : "").append(text).append(";");
  };
  testing::internal::CaptureStderr();
  set_log_sink({write, &lines, LogLevel::Info});
  log_info("one");
  log_debug("hidden");
  log_text(LogLevel::Error, "two");
  set_log_sink({});
  log_text(LogLevel::Debug, "nowhere");
  EXPECT_EQ(lines, "one;!two;");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace toroid
