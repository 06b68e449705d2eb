// Which convolutions become one step. Kernels before and after them turn images between planes and channels innermost.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct ChainCase {
  const char* name;
  const char* steps;
  const char* graph;  // of an image x and the weights below
};
void PrintTo(const ChainCase& row, std::ostream* out) { *out << row.name; }

constexpr std::string_view kWeights = R"(
constant 0 "expand": f32[96, 16, 1, 1] = external
constant 1 "filter": f32[96, 1, 3, 3] = external
constant 2 "project": f32[16, 96, 1, 1] = external
constant 3 "whole": f32[96, 96, 3, 3] = external
constant 4 "stem": f32[96, 3, 3, 3] = external
)";

const ChainCase kChains[] = {
    {"an_inverted_bottleneck", "kernel chain(3) kernel", R"(
graph(x: f32[1, 16, 32, 32]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  u: f32[16, 96, 1, 1] = constant(2)
  a: f32[1, 96, 32, 32] = aten::conv2d(x, w)
  b: f32[1, 96, 32, 32] = aten::hardtanh(a, 0.0, 6.0)
  c: f32[1, 96, 32, 32] = aten::conv2d(b, v, padding=[1, 1], groups=96)
  d: f32[1, 96, 32, 32] = aten::hardtanh(c, 0.0, 6.0)
  e: f32[1, 16, 32, 32] = aten::conv2d(d, u)
  y: f32[1, 16, 32, 32] = aten::add.Tensor(e, x)
  return y
})"},
    {"without_anything_between", "chain(2) kernel", R"(
graph(x: f32[1, 3, 64, 64]) {
  w: f32[96, 3, 3, 3] = constant(4)
  v: f32[96, 1, 3, 3] = constant(1)
  a: f32[1, 96, 64, 64] = aten::conv2d(x, w, padding=[1, 1])
  y: f32[1, 96, 32, 32] = aten::conv2d(a, v, stride=[2, 2], padding=[1, 1], groups=96)
  return y
})"},
    {"any_number_of_images", "kernel chain(2) kernel", R"(
sym s0 in [1, 64] hint 4
graph(x: f32[s0, 16, 32, 32]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  a: f32[s0, 96, 32, 32] = aten::conv2d(x, w)
  b: f32[s0, 96, 32, 32] = aten::relu(a)
  y: f32[s0, 96, 32, 32] = aten::conv2d(b, v, padding=[1, 1], groups=96)
  return y
})"},
    {"what_something_else_reads_is_whole", "kernel call+kernel call kernel", R"(
graph(x: f32[1, 16, 32, 32]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  a: f32[1, 96, 32, 32] = aten::conv2d(x, w)
  b: f32[1, 96, 32, 32] = aten::relu(a)
  c: f32[1, 96, 32, 32] = aten::conv2d(b, v, padding=[1, 1], groups=96)
  d: f32[1, 96, 32, 32] = aten::mul.Tensor(c, b)
  y: f32[1, 96] = aten::sum.dim_IntList(d, [2, 3])
  return y
})"},
    {"an_image_in_another_order_is_whole", "kernel call call kernel", R"(
graph(x: f32[1, 16, 32, 32]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  a: f32[1, 96, 32, 32] = aten::conv2d(x, w)
  b: f32[1, 96, 32, 32] = aten::flip(a, [2])
  y: f32[1, 96, 32, 32] = aten::conv2d(b, v, padding=[1, 1], groups=96)
  return y
})"},
    {"a_part_of_an_image_is_read_from_the_whole", "kernel call+kernel call kernel", R"(
graph(x: f32[1, 16, 32, 32]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  a: f32[1, 96, 32, 32] = aten::conv2d(x, w)
  b: f32[1, 96, 32, 32] = aten::relu(a)
  c: f32[1, 96, 20, 32] = aten::slice.Tensor(b, 2, 12, 32)
  y: f32[1, 96, 20, 32] = aten::conv2d(c, v, padding=[1, 1], groups=96)
  return y
})"},
    {"filters_of_many_channels_are_done_by_themselves", "kernel call+kernel call kernel", R"(
graph(x: f32[1, 16, 32, 32]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 96, 3, 3] = constant(3)
  a: f32[1, 96, 32, 32] = aten::conv2d(x, w)
  b: f32[1, 96, 32, 32] = aten::relu(a)
  y: f32[1, 96, 32, 32] = aten::conv2d(b, v, padding=[1, 1])
  return y
})"},
    {"small_images_stay_in_the_cache", "kernel call+kernel call kernel", R"(
graph(x: f32[1, 16, 8, 8]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  a: f32[1, 96, 8, 8] = aten::conv2d(x, w)
  b: f32[1, 96, 8, 8] = aten::relu(a)
  y: f32[1, 96, 8, 8] = aten::conv2d(b, v, padding=[1, 1], groups=96)
  return y
})"},
    {"chains_end_where_little_passes", "kernel chain(2) chain(2) kernel", R"(
graph(x: f32[1, 96, 64, 64]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  u: f32[16, 96, 1, 1] = constant(2)
  a: f32[1, 96, 64, 64] = aten::conv2d(x, v, padding=[1, 1], groups=96)
  b: f32[1, 16, 64, 64] = aten::conv2d(a, u)
  c: f32[1, 96, 64, 64] = aten::conv2d(b, w)
  y: f32[1, 96, 64, 64] = aten::conv2d(c, v, padding=[1, 1], groups=96)
  return y
})"},
    {"filters_that_are_computed", "kernel call+kernel call kernel", R"(
graph(x: f32[1, 16, 32, 32], v: f32[96, 1, 3, 3]) {
  w: f32[96, 16, 1, 1] = constant(0)
  a: f32[1, 96, 32, 32] = aten::conv2d(x, w)
  b: f32[1, 96, 32, 32] = aten::relu(a)
  y: f32[1, 96, 32, 32] = aten::conv2d(b, v, padding=[1, 1], groups=96)
  return y
})"},
};

class Chains : public testing::TestWithParam<ChainCase> {};
TEST_P(Chains, AreOfRowsThatAreReadAsTheyAreMade) {
  const Scheduled result = scheduled(fmt::format("{}{}", kWeights, GetParam().graph));
  EXPECT_EQ(kinds_of_steps(result.schedule), GetParam().steps);
}
INSTANTIATE_TEST_SUITE_P(Rows, Chains, testing::ValuesIn(kChains), [](const auto& row) { return row.param.name; });

// What passes between them then has memory from the one to the next.
TEST(ChainsTakenApart, AreStepsOfTheirOwn) {
  Scheduled result = scheduled(fmt::format("{}{}", kWeights, kChains[0].graph));
  Schedule& schedule = result.schedule;
  ASSERT_EQ(kinds_of_steps(schedule), "kernel chain(3) kernel");
  take_chains_apart(schedule, {});
  EXPECT_EQ(kinds_of_steps(schedule), "kernel chain(3) kernel");
  take_chains_apart(schedule, {1});
  EXPECT_EQ(kinds_of_steps(schedule), "kernel call+kernel call+kernel call kernel");
  std::vector<std::pair<size_t, size_t>> spans;
  for (const Lifetime& each : schedule.lifetimes) spans.emplace_back(each.first_step, each.last_step);
  EXPECT_EQ(spans, (std::vector<std::pair<size_t, size_t>>{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
}

}  // namespace
}  // namespace toroid::schedule
