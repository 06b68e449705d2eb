// Which launches are on branches beside each other, that their temporaries do not share memory, and that a text which says otherwise is
// refused.
#include "program/streams/branches.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "program/made_for_test.h"
#include "program/text.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::program {
namespace {

Made with_branches(std::string_view text, bool profile = false) {
  schedule::Scheduled scheduled = schedule::scheduled(text, schedule::cuda_planner(schedule::TensorCores::Hopper),
                                                      {.convolutions_as_loops = true, .convolutions_in_tiles = true});
  Made result{std::move(scheduled.program), {}, {}};
  result.graphs.push_back({std::move(scheduled.schedule), std::move(scheduled.outputs)});
  result.module = make_module(result.graphs, result.program, {.device = Device::Cuda, .profile = profile});
  return result;
}

// Of each step of calls its branch: "0 1 2 1 0".
std::string branches_of(const Made& made) {
  std::string text;
  for (const Step& step : made.module.main.steps) text += fmt::format("{}{}", text.empty() ? "" : " ", step.branch);
  return text;
}

// Two chains from one image of few pixels, of one and of two convolutions, which are added.
constexpr std::string_view kBlock = R"(
constant 0 "a": bf16[256, 256, 3, 3] = external
constant 1 "b": bf16[128, 256, 1, 1] = external
constant 2 "c": bf16[256, 128, 3, 3] = external
graph(x: bf16[1, 256, 14, 14] strides [50176, 1, 3584, 256]) {
  a: bf16[256, 256, 3, 3] = constant(0)
  b: bf16[128, 256, 1, 1] = constant(1)
  c: bf16[256, 128, 3, 3] = constant(2)
  p: bf16[1, 256, 14, 14] = aten::conv2d(x, a, none, [1, 1], [1, 1])
  q: bf16[1, 256, 14, 14] = aten::relu(p)
  r: bf16[1, 128, 14, 14] = aten::conv2d(x, b)
  s: bf16[1, 128, 14, 14] = aten::relu(r)
  t: bf16[1, 256, 14, 14] = aten::conv2d(s, c, none, [1, 1], [1, 1])
  u: bf16[1, 256, 14, 14] = aten::relu(t)
  v: bf16[1, 256, 14, 14] = aten::mul.Tensor(q, u)
  w: bf16[1, 256] = aten::mean.dim(v, [2, 3])
  return w
})";

TEST(Branches, AreChainsThatDoNotWaitForEachOther) {
  const Made made = with_branches(kBlock);
  const std::string text = module_text(made.program, made.graphs, made.module);
  EXPECT_NE(branches_of(made).find("1"), std::string::npos) << text;
  EXPECT_NE(branches_of(made).find("2"), std::string::npos) << text;
  EXPECT_NE(text.find(" on branch 1 {"), std::string::npos) << text;
  EXPECT_EQ(made.module.main.steps.back().branch, 0u) << text;
  EXPECT_EQ(fault_of_branches(made.graphs, made.module), std::nullopt);
}

// What is large fills the device, one chain has nothing beside it, and sizes that are not known tell nothing.
TEST(Branches, AreNoneWhereNothingIsGained) {
  std::string large(kBlock), unknown(kBlock);
  for (size_t at; (at = large.find("[1, 256, 14, 14]")) != std::string::npos;) large.replace(at, 16, "[64, 256, 14, 14]");
  for (size_t at; (at = large.find("[1, 128, 14, 14]")) != std::string::npos;) large.replace(at, 16, "[64, 128, 14, 14]");
  for (size_t at; (at = large.find("bf16[1, 256] ")) != std::string::npos;) large.replace(at, 13, "bf16[64, 256] ");
  EXPECT_EQ(branches_of(with_branches(large)).find_first_not_of("0 "), std::string::npos);
  EXPECT_EQ(branches_of(with_branches(kBlock, true)).find_first_not_of("0 "), std::string::npos) << "steps are timed one by one";
  EXPECT_EQ(branches_of(with_branches(R"(
graph(x: f32[8, 512]) {
  y: f32[8, 512] = aten::softmax.int(x, 1)
  s: f32[512] = aten::sum.dim_IntList(y, [0])
  c: f32[512] = aten::cumsum(s, 0)
  return c
})"))
                .find_first_not_of("0 "),
            std::string::npos);
}

TEST(Branches, KeepTemporariesUntilAllHaveEnded) {
  const Made made = with_branches(kBlock);
  const std::vector<Step>& steps = made.module.main.steps;
  const auto has_branch = [](const Step& step) { return step.branch > 0; };
  const auto first = static_cast<size_t>(std::find_if(steps.begin(), steps.end(), has_branch) - steps.begin());
  const auto end =
      static_cast<size_t>(std::find_if_not(steps.begin() + static_cast<ptrdiff_t>(first), steps.end(), has_branch) - steps.begin());
  ASSERT_LT(first, steps.size());
  int inside = 0;
  for (const schedule::Lifetime& each : made.module.temporaries) {
    if (each.last_step < first || each.first_step >= end) continue;
    EXPECT_LE(each.first_step, first);
    EXPECT_GE(each.last_step, end - 1);
    ++inside;
  }
  EXPECT_GT(inside, 1);
}

TEST(Branches, ReadBackAndAreChecked) {
  const Made made = with_branches(kBlock);
  const std::string text = module_text(made.program, made.graphs, made.module);
  const ParsedModule read = parse_module(text);
  EXPECT_EQ(module_text(read.program, read.graphs, read.module), text);
  // The second step of a chain is no step of another one.
  const std::vector<Step>& steps = made.module.main.steps;
  std::vector<size_t> counts(kMostBranches + 1);
  for (const Step& step : steps) ++counts[step.branch];
  const auto longest = static_cast<uint32_t>(std::max_element(counts.begin() + 1, counts.end()) - counts.begin());
  const auto last = std::find_if(steps.rbegin(), steps.rend(), [&](const Step& step) { return step.branch == longest; });
  std::string other = text;
  const size_t at = other.find(fmt::format(" on branch {} {{", longest), other.find(fmt::format("step {} ", last->number)));
  ASSERT_NE(at, std::string::npos);
  other.replace(at, 12, " on branch 4");
  const Error error = error_of([&] { parse_module(other); });
  EXPECT_NE(error.message().find("is on another branch than step"), std::string::npos) << error.message();
}

// Its kernels count in the device's memory, once in a program and once for each lane (lanes.h).
TEST(Branches, HaveNoAttention) {
  const Made made = with_branches(R"(
graph(q: bf16[1, 8, 256, 64], k: bf16[1, 8, 256, 64], v: bf16[1, 8, 256, 64]) {
  y: bf16[1, 8, 256, 64] = aten::scaled_dot_product_attention(q, k, v)
  return y
})");
  std::string text = module_text(made.program, made.graphs, made.module);
  const size_t step = text.find("    step 0 ");
  ASSERT_NE(text.substr(step).find("attention"), std::string::npos) << text;
  text.insert(text.find(" {\n", step), " on branch 3");
  EXPECT_NE(error_of([&] { parse_module(text); }).message().find("step 0 cannot be on a branch"), std::string::npos);
}

}  // namespace
}  // namespace toroid::program
