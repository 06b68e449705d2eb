#include "tune/lock.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"

namespace toroid::tune {
namespace {

TEST(ChoiceLock, TextReadsBackSorted) {
  ChoiceLock lock;
  lock.set("z(f32[2]) -> f32[2]; integers 1 2", {"plain", "00ff"});
  lock.set("a() -> f32[2]", {"quick-2", "1234"});
  const std::string text = "toroid choices 1\na() -> f32[2] = quick-2 1234\nz(f32[2]) -> f32[2]; integers 1 2 = plain 00ff\n";
  EXPECT_EQ(lock.text(), text);
  const ChoiceLock read = ChoiceLock::parse("# by hand\n\n" + text, "a.lock");
  EXPECT_EQ(read.text(), text);
  EXPECT_EQ(read.at("a() -> f32[2]"), (LockedChoice{"quick-2", "1234"}));
}

TEST(ChoiceLock, AProblemThatIsMissingIsNamed) {
  const ChoiceLock lock = ChoiceLock::parse("toroid choices 1\n", "a.lock");
  EXPECT_EQ(error_of([&] { lock.at("a(f32[3]) -> f32[3]"); }).report(),
            "error: a.lock has no choice for a(f32[3]) -> f32[3]\n  help: write the lock anew for this model, or compile without it");
}

TEST(ChoiceLock, AStepOfAGpuIsTakenByItsName) {
  const std::string text =
      "toroid choices 1\ngpu.matmul.bf16(bf16[64, 64], bf16[64, 64]) -> bf16[64, 64]; step 12ab = 128x192-pingpong 00ff\n";
  const ChoiceLock lock = ChoiceLock::parse(text, "a.lock");
  EXPECT_EQ(lock.text(), text);
  EXPECT_EQ(lock.at("gpu.matmul.bf16(bf16[64, 64], bf16[64, 64]) -> bf16[64, 64]; step 12ab").choice, "128x192-pingpong");
}

TEST(ChoiceLock, WhatIsWrongIsNamedWithItsLine) {
  const std::pair<const char*, const char*> rows[] = {
      {"a() -> f32[2] = x 12\n", "this is no file of choices: it does not begin with 'toroid choices 1'"},
      {"toroid choices 1\na() -> f32[2]\n", "a line is 'PROBLEM = CHOICE HASH'"},
      {"toroid choices 1\na() -> f32[2] = x\n", "a line is 'PROBLEM = CHOICE HASH'"},
      {"toroid choices 1\na( -> f32[2] = x 12\n", "1:4: expected a dtype"},
      {"toroid choices 1\na() -> f32[2] = x 12\na()->f32[2] = y 12\n", "the problem has a choice already: a() -> f32[2]"},
  };
  for (const auto& [text, message] : rows) {
    const Error error = error_of([&] { ChoiceLock::parse(text, "a.lock"); });
    EXPECT_EQ(error.message(), message);
  }
  EXPECT_NE(error_of([] { ChoiceLock::parse("toroid choices 1\n\nnonsense\n", "a.lock"); }).report().find("while reading a.lock, line 3"),
            std::string::npos);
}

}  // namespace
}  // namespace toroid::tune
