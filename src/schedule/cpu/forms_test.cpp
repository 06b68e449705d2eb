#include "schedule/cpu/forms.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

const Kernel& only_kernel(const Scheduled& program) {
  EXPECT_EQ(kinds_of_steps(program.schedule), "kernel");
  return std::get<Kernel>(program.schedule.steps.at(0));
}

std::string residual_and_layer_norm(int64_t rows, int64_t columns) {
  return fmt::format(R"(
graph(x: f32[{0}, {1}], r: f32[{0}, {1}]) {{
  s: f32[{0}, {1}] = aten::add.Tensor(x, r)
  n: f32[{0}, {1}] = aten::layer_norm(s, [{1}])
  return n
}})",
                     rows, columns);
}

TEST(Forms, AnExponentialIsKept) {
  const Scheduled program = scheduled(R"(
graph(x: f32[2048, 1000]) {
  y: f32[2048, 1000] = aten::softmax.int(x, -1)
  return y
})");
  const Kernel& kernel = only_kernel(program);
  EXPECT_EQ(kernel.form, Form::Persistent);
  EXPECT_EQ(kernel.stashes.size(), 1u);
  EXPECT_TRUE(kernel.other_forms.empty());
}

// The sum of two tensors is read three times: it costs about as much to compute it again as to keep it.
TEST(Forms, ASumOfTwoIsLeftToTheFirstCall) {
  const Scheduled program = scheduled(residual_and_layer_norm(256, 1024));
  const Kernel& kernel = only_kernel(program);
  ASSERT_EQ(kernel.other_forms.size(), 1u);
  const Kernel& other = kernel.other_forms[0];
  EXPECT_NE(kernel.form, other.form);
  const Kernel& persistent = kernel.form == Form::Persistent ? kernel : other;
  const Kernel& looped = kernel.form == Form::Persistent ? other : kernel;
  EXPECT_EQ(persistent.stashes.size(), 1u);
  EXPECT_TRUE(looped.stashes.empty());
  ASSERT_EQ(persistent.stages.size(), looped.stages.size());
  for (size_t s = 0; s < looped.stages.size(); ++s) {
    EXPECT_EQ(persistent.stages[s].turns, looped.stages[s].turns);  // the order of sums
    for (const Statement& statement : looped.stages[s].statements) EXPECT_FALSE(std::holds_alternative<Keep>(statement));
  }
  EXPECT_EQ(persistent.unfused.size(), looped.unfused.size());
}

TEST(Forms, LittleWorkIsNotWorthASecondForm) { EXPECT_TRUE(only_kernel(scheduled(residual_and_layer_norm(16, 1024))).other_forms.empty()); }

TEST(Forms, NorIsASmallPartOfAProgram) {
  const Scheduled program = scheduled(R"(
graph(x: f32[256, 1024], r: f32[256, 1024], w: f32[4096, 1024], v: f32[1024, 4096]) {
  s: f32[256, 1024] = aten::add.Tensor(x, r)
  n: f32[256, 1024] = aten::layer_norm(s, [1024])
  h: f32[256, 4096] = aten::linear(n, w)
  y: f32[256, 1024] = aten::linear(h, v)
  return y
})");
  ASSERT_EQ(kinds_of_steps(program.schedule), "kernel call call");
  const Kernel& kernel = std::get<Kernel>(program.schedule.steps[0]);
  EXPECT_TRUE(kernel.form.has_value());
  EXPECT_TRUE(kernel.other_forms.empty());
}

// Numbers of a mask's inside may not exist outside of it.
TEST(Forms, WhatAMaskHidesIsKeptOnlyWithIt) {
  const Scheduled program = scheduled(R"(
graph(x: f32[64, 1000]) {
  a: f32[64, 1000] = aten::mul.Scalar(x, 2.5)
  c: f32[64, 1000] = aten::add.Scalar(a, 1.5)
  e: f32[64, 1000] = aten::mul.Scalar(c, 0.1)
  p: f32[64, 1010] = aten::constant_pad_nd(e, [5, 5], 0.5)
  q: f32[64, 1010] = aten::constant_pad_nd(e, [5, 5], 0.25)
  m: f32[64, 1] = aten::amax(p, [1], True)
  y: f32[64, 1010] = aten::mul.Tensor(q, m)
  return y
})");
  const Kernel& kernel = only_kernel(program);
  EXPECT_TRUE(kernel.stashes.empty());
  EXPECT_EQ(kernel.form, std::nullopt);
}

}  // namespace
}  // namespace toroid::schedule
