// The ways in which a step may be done: which there are, that each is a legal schedule, and which steps are the same problem.
#include "schedule/cuda/ways/ways.h"

#include <gtest/gtest.h>

#include <set>

#include "schedule/cuda/kept_in_registers.h"
#include "schedule/cuda/ways/step_alone.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "schedule/text/text.h"

namespace toroid::schedule {
namespace {

Scheduled on_hopper(std::string_view text) {
  return scheduled(text, cuda_planner(TensorCores::Hopper),
                   {.convolutions_as_loops = true, .products_of_float8 = true, .convolutions_in_tiles = true});
}

std::set<std::string> names_of_ways(Scheduled& made, size_t step) {
  std::set<std::string> names;
  for (const Way& way : ways_of(*made.schedule.loops, made.schedule.steps[step])) names.insert(way.name);
  return names;
}

constexpr std::string_view kLinear = R"(
graph(x: bf16[512, 1024], w: bf16[768, 1024], b: bf16[768]) {
  y: bf16[512, 768] = aten::linear(x, w, b)
  z: bf16[512, 768] = aten::gelu(y)
  return z
})";

TEST(Ways, OfAProductAreTilesAndWithoutAnEpilogueTheLibrary) {
  Scheduled with = on_hopper(kLinear);
  const std::set<std::string> tiles = names_of_ways(with, 0);
  EXPECT_TRUE(tiles.contains("128x128x5-pingpong"));
  EXPECT_TRUE(tiles.contains("64x128x7-pingpong"));
  EXPECT_FALSE(tiles.contains("library")) << "who would do what follows?";
  Scheduled alone = on_hopper(R"(
graph(x: bf16[512, 1024], w: bf16[1024, 768]) {
  y: bf16[512, 768] = aten::mm(x, w)
  return y
})");
  EXPECT_TRUE(names_of_ways(alone, 0).contains("library"));
}

TEST(Ways, BeginWithTheStepAsItIs) {
  Scheduled made = on_hopper(kLinear);
  const std::vector<Way> ways = ways_of(*made.schedule.loops, made.schedule.steps[0]);
  const auto& own = std::get<CallStep>(made.schedule.steps[0]);
  EXPECT_EQ(ways[0].name, name_of(*own.gpu));
  EXPECT_EQ(std::get<CallStep>(ways[0].step).gpu, own.gpu);
  ASSERT_GT(ways.size(), 1u);
  for (size_t i = 1; i < ways.size(); ++i) EXPECT_GT(ways[i].seconds, ways[0].seconds) << ways[i].name;
}

TEST(Ways, OfAUsersKernelInTritonAreItsConfigurations) {
  Scheduled made = on_hopper("graph(x: bf16[64, 64], y: bf16[64, 64]) {\n  z: bf16[64, 64] = aten::mm(x, y)\n  return z\n}");
  auto& call = std::get<CallStep>(made.schedule.steps[0]);
  call.gpu.reset();
  call.call.op = Library{"custom.triton.mylib::f", {sym::Expr(1), sym::Expr(1), sym::Expr(1), sym::Expr(3)}};
  EXPECT_EQ(names_of_ways(made, 0), (std::set<std::string>{"configuration0", "configuration1", "configuration2"}));
  call.choice = "configuration2";
  const std::vector<Way> ways = ways_of(*made.schedule.loops, made.schedule.steps[0]);
  EXPECT_EQ(ways[0].name, "configuration2");
  EXPECT_EQ(std::get<CallStep>(ways[1].step).choice, ways[1].name);
}

TEST(Ways, OfAKernelInTritonAreThoseOfCudaToo) {
  Scheduled made = on_hopper("graph(x: f32[4096, 1000]) {\n  y: f32[4096, 1000] = aten::softmax.int(x, 1)\n  return y\n}");
  const size_t others = names_of_ways(made, 0).size();
  std::get<Kernel>(made.schedule.steps[0]).gpu->in_triton = true;
  const std::vector<Way> ways = ways_of(*made.schedule.loops, made.schedule.steps[0]);
  EXPECT_EQ(ways.size(), others + 5);
  EXPECT_EQ(ways[0].name, "triton");
  EXPECT_EQ(ways[2].name, "triton-4warps");
  EXPECT_EQ(std::get<Kernel>(ways[2].step).gpu->triton_warps, 4);
  for (const Way& way : ways) EXPECT_EQ(std::get<Kernel>(way.step).gpu->in_triton, way.name.starts_with("triton")) << way.name;
  made.schedule.steps[0] = ways[2].step;
  const std::string text = text_of_schedule(std::move(made));
  EXPECT_NE(text.find(" triton warps 4"), std::string::npos) << text;
  EXPECT_EQ(read_back(text), text);
}

// What is computed again is kept nowhere, and a row in shared memory has all threads of its block.
TEST(Ways, OfARowInSharedMemoryKeepItThereOrNowhere) {
  Scheduled made = on_hopper("graph(x: bf16[2048, 32000]) {\n  y: bf16[2048, 32000] = aten::softmax.int(x, 1)\n  return y\n}");
  ASSERT_TRUE(std::get<Kernel>(made.schedule.steps[0]).gpu->shared);
  const Kernel again = with_nothing_kept(*made.schedule.loops, std::get<Kernel>(made.schedule.steps[0]));
  EXPECT_FALSE(again.gpu->shared);
  std::vector<Way> ways = ways_of(*made.schedule.loops, made.schedule.steps[0]);
  for (Way& each : ways_of(*made.schedule.loops, again)) ways.push_back(std::move(each));
  EXPECT_GT(ways.size(), 3u);
  for (const Way& way : ways) {
    const auto& kernel = std::get<Kernel>(way.step);
    if (!kernel.gpu->shared) continue;
    EXPECT_EQ(kernel.stashes.size(), 1u) << way.name;
    EXPECT_EQ(kernel.gpu->threads, kernel.gpu->row_threads) << way.name;
  }
}

struct WaysCase {
  const char* name;
  const char* graph;
};
void PrintTo(const WaysCase& row, std::ostream* out) { *out << row.name; }

const WaysCase kSteps[] = {
    {"a_product_of_few_rows", R"(
graph(x: bf16[8, 1024], w: bf16[4096, 1024]) {
  t: bf16[1024, 4096] = aten::t(w)
  y: bf16[8, 4096] = aten::mm(x, t)
  return y
})"},
    {"a_product_with_an_epilogue", R"(
graph(x: bf16[512, 1024], w: bf16[768, 1024], b: bf16[768]) {
  y: bf16[512, 768] = aten::linear(x, w, b)
  z: bf16[512, 768] = aten::gelu(y)
  return z
})"},
    {"gradients_of_8_bit_floats", R"(
graph(g: f8e5m2[512, 1024], w: f8e4m3fn[768, 1024], s: f32[]) {
  t: f8e4m3fn[1024, 768] = aten::t(w)
  y: bf16[512, 768] = aten::_scaled_mm(g, t, s, s, none, none, dtype.bf16)
  return y
})"},
    {"a_batch_of_products", R"(
graph(x: f16[4, 512, 128], w: f16[4, 128, 768]) {
  y: f16[4, 512, 768] = aten::bmm(x, w)
  return y
})"},
    {"a_convolution", R"(
graph(x: bf16[8, 64, 28, 28], w: bf16[128, 64, 3, 3], b: bf16[128]) {
  y: bf16[8, 128, 28, 28] = aten::conv2d(x, w, b, padding=[1, 1])
  z: bf16[8, 128, 28, 28] = aten::relu(y)
  return z
})"},
    {"a_norm_and_a_softmax", R"(
graph(x: f32[16384, 768], w: f32[768], b: f32[768], y: bf16[16384, 1024]) {
  z: f32[16384, 768] = aten::layer_norm(x, [768], w, b)
  s: bf16[16384, 1024] = aten::softmax.int(y, 1)
  return z, s
})"},
    {"sums_of_columns", R"(
graph(x: bf16[1024, 4096]) {
  y: bf16[4096] = aten::sum.dim_IntList(x, [0])
  return y
})"},
    {"long_rows", R"(
graph(x: f32[64, 32000]) {
  y: f32[64, 32000] = aten::softmax.int(x, 1)
  return y
})"},
    {"product_with_a_prologue", R"(
graph(x: bf16[1, 1024], w: bf16[1024, 1024], b: bf16[1024]) {
  n: bf16[1, 1024] = aten::softmax.int(x, 1)
  y: bf16[1, 1024] = aten::linear(n, w, b)
  return y
})"},
    {"attention", R"(
graph(q: bf16[2, 4, 256, 64], k: bf16[2, 4, 256, 64], v: bf16[2, 4, 256, 64]) {
  y: bf16[2, 4, 256, 64] = aten::scaled_dot_product_attention(q, k, v)
  return y
})"},
};

class LegalWays : public testing::TestWithParam<WaysCase> {};
// The text says which way it is, and is verified when it is read.
TEST_P(LegalWays, AreSchedulesThatReadBack) {
  Scheduled made = on_hopper(GetParam().graph);
  std::set<std::string> texts;
  size_t several = 0;
  for (size_t s = 0; s < made.schedule.steps.size(); ++s) {
    const std::vector<Way> ways = ways_of(*made.schedule.loops, made.schedule.steps[s]);
    several += ways.size() > 1 ? 1 : 0;
    const Step own = made.schedule.steps[s];
    for (const Way& way : ways) {
      made.schedule.steps[s] = way.step;
      std::vector<ScheduledGraph> graphs;
      graphs.push_back({std::move(made.schedule), made.outputs});
      const std::string text = schedule_text(made.program, graphs);
      EXPECT_TRUE(texts.insert(text).second) << way.name << " is another way's schedule";
      EXPECT_EQ(read_back(text), text);
      made.schedule = std::move(graphs[0].schedule);
    }
    made.schedule.steps[s] = own;
    texts.clear();
  }
  EXPECT_GT(several, 0u);
}
INSTANTIATE_TEST_SUITE_P(Rows, LegalWays, testing::ValuesIn(kSteps), [](const auto& row) { return row.param.name; });

TEST(StepsAlone, AreTheSameProblemWhereOnlyNamesDiffer) {
  const Scheduled made = on_hopper(R"(
graph(x: bf16[512, 1024], w: bf16[1024, 1024], v: bf16[1024, 1024], b: bf16[1024], c: bf16[1024]) {
  y: bf16[512, 1024] = aten::linear(x, w, b)
  z: bf16[512, 1024] = aten::gelu(y)
  p: bf16[512, 1024] = aten::linear(z, v, c)
  q: bf16[512, 1024] = aten::gelu(p)
  r: bf16[512, 1024] = aten::linear(q, w, c)
  s: bf16[512, 1024] = aten::relu(r)
  return s
})");
  ASSERT_EQ(made.schedule.steps.size(), 3u);
  const auto text = [&](size_t step) { return text_without_names(*made.schedule.loops, made.schedule.steps[step]); };
  EXPECT_EQ(text(0), text(1));
  EXPECT_NE(text(1), text(2)) << "another epilogue";
  Step other = made.schedule.steps[0];
  std::get<CallStep>(other).gpu->stages = 2;
  EXPECT_EQ(text_without_names(*made.schedule.loops, other), text(0)) << "the way is no part of the problem";
}

TEST(StepsAlone, HaveSizesThatAreNumbers) {
  const Scheduled made = on_hopper(R"(
sym s0 in [1, 4096] hint 512
graph(x: bf16[s0, 1024], w: bf16[1024, 768], y: f32[64, 512]) {
  p: bf16[s0, 768] = aten::mm(x, w)
  q: f32[64, 512] = aten::softmax.int(y, 1)
  return p, q
})");
  std::vector<bool> can;
  for (const Step& step : made.schedule.steps) can.push_back(can_be_alone(*made.schedule.loops, step));
  EXPECT_EQ(can, (std::vector<bool>{false, true}));
}

TEST(StepsAlone, TakeWhatTheStepReadsAndGiveWhatItWrites) {
  const Scheduled made = on_hopper(kLinear);
  const StepAlone alone = step_alone(made.program, *made.schedule.loops, made.schedule.steps[0]);
  ASSERT_EQ(alone.program.graph.inputs.size(), 3u);
  ASSERT_EQ(alone.program.graph.outputs.size(), 1u);
  EXPECT_TRUE(alone.program.graph.type(alone.program.graph.inputs[0]).sizes[0].is_const(512 * 1024));
  EXPECT_TRUE(alone.program.graph.type(alone.program.graph.outputs[0]).sizes[0].is_const(512 * 768));
}

}  // namespace
}  // namespace toroid::schedule
