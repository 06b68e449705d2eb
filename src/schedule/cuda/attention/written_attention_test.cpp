#include "schedule/cuda/attention/written_attention.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "schedule/text/text.h"

namespace toroid::schedule {
namespace {

// Attention of q, k and v, [3, 2, 300, width], whose scores are the products where `condition` holds.
Scheduled written_attention(int width, std::string_view condition, TensorCores cores = TensorCores::Hopper) {
  return scheduled(fmt::format(R"(
graph(q: bf16[3, 2, 300, {0}], k: bf16[3, 2, 300, {0}], v: bf16[3, 2, 300, {0}], d: i64[3, 300]) {{
  p: f32[3, 2, 300, 300] = library.attention.product(q, k)
  i: i64[3, 2, 300, 300] = iota(dim=2)
  j: i64[3, 2, 300, 300] = iota(dim=3)
  r: i64[3, 1, 300, 1] = reshape(d)
  x: i64[3, 2, 300, 300] = expand(r)
  t: bool[3, 2, 300, 300] = full(value=true)
  c: bool[3, 2, 300, 300] = {1}
  h: f32[3, 2, 300, 300] = full(value=-inf)
  s: f32[3, 2, 300, 300] = where(c, p, h)
  y: bf16[3, 2, 300, {0}] = library.attention.of_scores(q, k, v, s, attributes=[true])
  return y
}})",
                               width, condition),
                   cuda_planner(cores));
}
const CallStep& only_call(const Scheduled& made) {
  EXPECT_EQ(made.schedule.steps.size(), 1u);
  return std::get<CallStep>(made.schedule.steps.at(0));
}

TEST(WrittenAttentionKernel, IsOneStepThatReadsBack) {
  Scheduled made = written_attention(64, "eq(x, j)");
  const std::string text = text_of_schedule(std::move(made));
  EXPECT_NE(text.find(" where eq("), std::string::npos) << text;
  EXPECT_EQ(read_back(text), text);
}

TEST(WrittenAttentionKernel, ReadsWhatItsScoresLoad) {
  const Scheduled made = written_attention(64, "eq(x, j)");
  std::vector<std::string> names;
  for (BufferId id : reads_of(only_call(made))) names.push_back(made.schedule.loops->buffer(id).name);
  EXPECT_EQ(names, (std::vector<std::string>{"q", "k", "v", "d"}));
}

TEST(WrittenAttentionKernel, IsHoppersOfRowsThatTmaReads) {
  const auto is_hoppers = [](int width, TensorCores cores) {
    return only_call(written_attention(width, "le(j, i)", cores)).gpu->ping_pong;
  };
  EXPECT_TRUE(is_hoppers(64, TensorCores::Hopper));
  EXPECT_TRUE(is_hoppers(128, TensorCores::Hopper));
  EXPECT_FALSE(is_hoppers(96, TensorCores::Hopper));
  EXPECT_FALSE(is_hoppers(64, TensorCores::Warps));
}

// Every GPU with such tensor cores has so much of it.
TEST(WrittenAttentionKernel, FitsSharedMemory) {
  constexpr int64_t kMostShared = 99 << 10;
  for (int width = 8; width <= 256; width += 8) {
    for (const TensorCores cores : {TensorCores::Warps, TensorCores::Hopper}) {
      const Scheduled made = written_attention(width, "le(j, i)", cores);
      const CudaGrid grid = cuda_grid_of(*made.schedule.loops, made.schedule.steps[0]);
      EXPECT_LE(grid.shared_bytes, grid.resident > 0 ? int64_t{kMostSharedBytes} : kMostShared) << width;
    }
  }
}

TEST(WrittenAttentionKernel, HasATableOfTheBatchesForWhichItDiffers) {
  const auto sizes = [](std::string_view condition) {
    const Scheduled made = written_attention(64, condition);
    const CallStep& call = only_call(made);
    EXPECT_TRUE(has_table(call));
    EXPECT_EQ(call.outputs.size(), 2u);
    std::vector<int64_t> numbers;
    for (sym::Expr size : table_sizes(*made.schedule.loops, call)) numbers.push_back(size.value());
    return numbers;
  };
  EXPECT_EQ(sizes("le(j, i)"), (std::vector<int64_t>{1, 1, 3, 8}));
  EXPECT_EQ(sizes("eq(x, j)"), (std::vector<int64_t>{3, 1, 3, 8}));
  const Scheduled all = written_attention(64, "bit_or(t, t)");
  EXPECT_FALSE(has_table(only_call(all)));
}

// As a model's layers do.
TEST(WrittenAttentionKernel, ReadsTheTableOfAnEarlierStepWithTheSameCondition) {
  const auto made = [](std::string_view second) {
    return scheduled(fmt::format(R"(
graph(q: bf16[3, 2, 300, 64], k: bf16[3, 2, 300, 64], v: bf16[3, 2, 300, 64]) {{
  i: i64[3, 2, 300, 300] = iota(dim=2)
  j: i64[3, 2, 300, 300] = iota(dim=3)
  h: f32[3, 2, 300, 300] = full(value=-inf)
  p: f32[3, 2, 300, 300] = library.attention.product(q, k)
  c: bool[3, 2, 300, 300] = le(j, i)
  s: f32[3, 2, 300, 300] = where(c, p, h)
  y: bf16[3, 2, 300, 64] = library.attention.of_scores(q, k, v, s, attributes=[true])
  r: f32[3, 2, 300, 300] = library.attention.product(y, k)
  d: bool[3, 2, 300, 300] = {}
  t: f32[3, 2, 300, 300] = where(d, r, h)
  z: bf16[3, 2, 300, 64] = library.attention.of_scores(y, k, v, t, attributes=[true])
  return z
}})",
                                 second),
                     cuda_planner(TensorCores::Hopper));
  };
  Scheduled same = made("le(j, i)");
  const CallStep &first = std::get<CallStep>(same.schedule.steps.at(0)), &second = std::get<CallStep>(same.schedule.steps.at(1));
  EXPECT_TRUE(makes_table(first));
  EXPECT_FALSE(makes_table(second));
  EXPECT_EQ(second.call.operands.back().buffer, first.outputs.at(1));
  const Scheduled other = made("lt(j, i)");
  EXPECT_TRUE(makes_table(std::get<CallStep>(other.schedule.steps.at(1))));
  const std::string text = text_of_schedule(std::move(same));
  EXPECT_EQ(read_back(text), text);
}

}  // namespace
}  // namespace toroid::schedule
