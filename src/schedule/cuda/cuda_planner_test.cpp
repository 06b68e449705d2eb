// Which threads have which elements.
#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct ThreadsCase {
  const char* name;
  const char* graph;
  const char* line;  // of the schedule's text
};
void PrintTo(const ThreadsCase& row, std::ostream* out) { *out << row.name; }

const ThreadsCase kThreads[] = {
    // 256 blocks of rows; 64 columns are eight threads beside each other.
    {"columns_of_a_long_table", R"(
graph(x: bf16[802816, 64]) {
  y: f32[64] = aten::sum.dim_IntList(x, [0], dtype=dtype.f32)
  return y
})",
     "threads 64 of 512 columns vector 8 items 0"},
    // Two sums, and what is of a row alone, do not keep threads from neighbouring columns.
    {"two_sums_of_columns", R"(
graph(x: bf16[16384, 4096], g: bf16[16384, 4096], m: f32[16384, 1]) {
  c: f32[16384, 4096] = aten::sub.Tensor(x, m)
  p: f32[16384, 4096] = aten::mul.Tensor(c, g)
  w: f32[4096] = aten::sum.dim_IntList(p, [0])
  b: f32[4096] = aten::sum.dim_IntList(g, [0], dtype=dtype.f32)
  return w, b
})",
     "threads 64 of 512 columns vector 8 items 0"},
    // What two stages need is in shared memory: in registers it would leave room for one block.
    {"a_row_of_many_words", R"(
graph(x: bf16[4096, 50304]) {
  y: f32[4096, 50304] = aten::_softmax(x, 1, True)
  s: f32[4096] = aten::sum.dim_IntList(y, [1])
  return s
})",
     "threads 512 of 512 vector 8 items 13 shared"},
    {"few_short_columns", R"(
graph(x: bf16[1000, 64]) {
  y: f32[64] = aten::sum.dim_IntList(x, [0], dtype=dtype.f32)
  return y
})",
     "threads 32 of 1024 columns vector 1 items 0"},
    // What is divided by and taken away is of a channel: a thread has eight pixels.
    {"a_normalised_image", R"(
graph(x: bf16[802816, 64], m: f32[64], v: f32[64]) {
  c: f32[802816, 64] = aten::sub.Tensor(x, m)
  n: f32[802816, 64] = aten::div.Tensor(c, v)
  y: bf16[802816, 64] = aten::to.dtype(n, dtype.bf16)
  return y
})",
     "threads 1 of 256 vector 8 items 8"},
    {"a_bias", R"(
graph(x: bf16[802816, 64], b: bf16[64]) {
  y: bf16[802816, 64] = aten::add.Tensor(x, b)
  return y
})",
     "threads 1 of 256 vector 8 items 0"},
    {"an_image_of_few_pixels", R"(
graph(x: bf16[1024, 64], m: f32[64], v: f32[64]) {
  c: f32[1024, 64] = aten::sub.Tensor(x, m)
  n: f32[1024, 64] = aten::div.Tensor(c, v)
  y: bf16[1024, 64] = aten::to.dtype(n, dtype.bf16)
  return y
})",
     "threads 1 of 256 vector 1 items 0"},
};

class Threads : public testing::TestWithParam<ThreadsCase> {};
TEST_P(Threads, HaveElements) {
  const std::string text = to_string(scheduled(GetParam().graph, cuda_planner()).schedule);
  EXPECT_NE(text.find(GetParam().line), std::string::npos) << text;
}
INSTANTIATE_TEST_SUITE_P(Schedule, Threads, testing::ValuesIn(kThreads), [](const auto& row) { return row.param.name; });

TEST(Threads, OfColumnsThatMayHaveNoRows) {
  const std::string text = to_string(scheduled(R"(
sym s0 in [0, 100] hint 0
graph(x: f32[s0, 64]) {
  y: f32[64] = aten::sum.dim_IntList(x, [0])
  return y
})",
                                               cuda_planner())
                                         .schedule);
  EXPECT_NE(text.find("columns vector 1 items 0"), std::string::npos) << text;
}

// The gradients of a norm's weights are summed by the blocks that make the gradient of its input: memory is read once.
TEST(Threads, SumColumnsOfTheRowsThatTheyHave) {
  const std::string text = to_string(scheduled(R"(
graph(x: bf16[16384, 4096], g: bf16[16384, 4096], w: bf16[4096], b: bf16[4096]) {
  y: bf16[16384, 4096], m: bf16[16384, 1], s: bf16[16384, 1] = aten::native_layer_norm(x, [4096], w, b, 0.00001)
  dx: bf16[16384, 4096], dw: bf16[4096], db: bf16[4096] = aten::native_layer_norm_backward(g, x, [4096], m, s, w, b, [True, True, True])
  return y, dx, dw, db
})",
                                               cuda_planner())
                                         .schedule);
  EXPECT_NE(text.find("threads 256 of 256 vector 8 items 2 blocks 264"), std::string::npos) << text;
  EXPECT_EQ(text.find("threads 64 of 512 columns"), std::string::npos) << text;
}

// Of AMD's GPUs 64 threads exchange numbers without memory, so that a row may have as many.
TEST(Threads, OfARowAreAsManyAsAWaveHas) {
  const auto threads_of = [](const GpuLimits& limits) {
    const Scheduled made = scheduled("graph(x: f32[4096, 1000]) {\n  y: f32[4096] = aten::sum.dim_IntList(x, [1])\n  return y\n}",
                                     cuda_planner(TensorCores::None, limits));
    return std::get<Kernel>(made.schedule.steps.back()).gpu->row_threads;
  };
  EXPECT_EQ(threads_of({}), 32);
  EXPECT_EQ(threads_of({.wave = 64}), 64);
}

// The correction of a mean: threads whose rows do not need it leave out the stage.
TEST(Threads, AskOnceForARow) {
  const std::string text = to_string(scheduled(R"(
graph(x: f32[64, 4096]) {
  y: f32[64] = aten::var.correction(x, [1], correction=1)
  return y
})",
                                               cuda_planner())
                                         .schedule);
  EXPECT_NE(text.find("stage inner {\n      if e"), std::string::npos) << text;
}

}  // namespace
}  // namespace toroid::schedule
