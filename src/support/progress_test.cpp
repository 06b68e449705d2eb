#include "support/progress.h"

#include <gtest/gtest.h>

#include <string>

#include "support/sinks.h"

namespace toroid {
namespace {
using namespace std::chrono_literals;

struct FakeScreen {
  std::chrono::steady_clock::time_point time{};
  std::string text;
  ProgressOptions options(bool terminal) {
    return {.enabled = true, .terminal = terminal, .now = [this] { return time; }, .print = [this](const std::string& t) { text += t; }};
  }
};

TEST(Progress, TellsASinkOfEachStep) {
  FakeScreen screen;
  std::string told;
  set_progress_sink({[](void* user, std::string_view what, uint64_t done, uint64_t total) noexcept {
                       static_cast<std::string*>(user)->append(what).append(std::to_string(done) + "/" + std::to_string(total) + ";");
                     },
                     &told});
  {
    Progress progress("units ", 3, screen.options(true));
    screen.time += 2s;
    progress.advance();
    progress.advance(2);
  }
  set_progress_sink({});
  EXPECT_EQ(told, "units 1/3;units 3/3;");
  EXPECT_EQ(screen.text, "");
}

TEST(Progress, ShortWorkPrintsNothing) {
  FakeScreen screen;
  {
    Progress progress("compiling kernels", 2, screen.options(true));
    screen.time += 400ms;
    progress.advance();
    screen.time += 400ms;
    progress.advance();
  }
  EXPECT_EQ(screen.text, "");
}

TEST(Progress, RewritesItsLineOnATerminalAndWipesIt) {
  FakeScreen screen;
  {
    Progress progress("compiling kernels", 40, screen.options(true));
    screen.time += 1s;
    progress.advance(12);
    progress.advance();  // too soon after the last one
    screen.time += 1s;
    progress.advance();
  }
  EXPECT_EQ(screen.text, "\r\x1b[Kcompiling kernels 12/40\r\x1b[Kcompiling kernels 14/40\r\x1b[K");
}

TEST(Progress, WritesWholeLinesToALog) {
  FakeScreen screen;
  {
    Progress progress("compiling kernels", 3, screen.options(false));
    for (int i = 0; i < 3; ++i) {
      screen.time += 3s;
      progress.advance();
    }
  }
  EXPECT_EQ(screen.text, "compiling kernels 1/3\ncompiling kernels 3/3\n");
}

TEST(Progress, DisabledPrintsNothing) {
  FakeScreen screen;
  ProgressOptions options = screen.options(true);
  options.enabled = false;
  Progress progress("x", 1, options);
  screen.time += 9s;
  progress.advance();
  EXPECT_EQ(screen.text, "");
}

}  // namespace
}  // namespace toroid
