// Which products of few rows have the kernel that reads the right side once, in what tiles, and how many blocks share them.
#include "schedule/cuda/few_rows.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "schedule/text/text.h"

namespace toroid::schedule {
namespace {

// The tiles of the one product of x [rows, depth] and w, and its blocks.
std::string tiles_of(std::string_view x, std::string_view w, std::string_view y, bool by_columns = true) {
  const std::string text = by_columns ? fmt::format("graph(x: {}, w: {}) {{\n  y: {} = aten::linear(x, w)\n  return y\n}}", x, w, y)
                                      : fmt::format("graph(x: {}, w: {}) {{\n  y: {} = aten::mm(x, w)\n  return y\n}}", x, w, y);
  const Scheduled made = scheduled("sym s0 in [1, 64] hint 2\n" + text, cuda_planner(TensorCores::Hopper));
  const auto& call = std::get<CallStep>(made.schedule.steps[0]);
  if (!call.gpu) return "library";
  if (call.gpu->depth_warps == 0) return "tiles";
  return fmt::format("{} by {}, {} blocks", call.gpu->rows, call.gpu->columns, cuda_grid_of(*made.schedule.loops, call).blocks.value());
}

TEST(FewRows, HaveNarrowTilesWhereTheRightSideHasFewColumns) {
  EXPECT_EQ(tiles_of("bf16[1, 2048]", "bf16[2048, 2048]", "bf16[1, 2048]"), "8 by 8, 256 blocks");
  EXPECT_EQ(tiles_of("bf16[1, 2048]", "bf16[3072, 2048]", "bf16[1, 3072]"), "8 by 16, 192 blocks");
  EXPECT_EQ(tiles_of("bf16[1, 2048]", "bf16[16384, 2048]", "bf16[1, 16384]"), "8 by 32, 256 blocks");
  EXPECT_EQ(tiles_of("f16[12, 4096]", "f16[14336, 4096]", "f16[12, 14336]"), "16 by 32, 224 blocks");
  EXPECT_EQ(tiles_of("bf16[8, 4096]", "bf16[4096, 14336]", "bf16[8, 14336]", false), "8 by 64, 224 blocks");
}

TEST(FewRows, HaveNoMoreBlocksThanParts) {
  EXPECT_EQ(tiles_of("bf16[3, 64]", "bf16[16, 64]", "bf16[3, 16]"), "8 by 8, 2 blocks");
  EXPECT_EQ(tiles_of("bf16[s0, 64]", "bf16[16, 64]", "bf16[s0, 16]"), "8 by 8, 264 blocks");
}

TEST(FewRows, AreAsOtherProductsWhereTheyWouldShareTilesOfContiguousRows) {
  EXPECT_EQ(tiles_of("bf16[8, 4096]", "bf16[4096, 4096]", "bf16[8, 4096]", false), "tiles");
}

TEST(FewRows, AreOfSixteenBitFloatsAndInPiecesOfSixteenBytes) {
  EXPECT_EQ(tiles_of("f32[1, 2048]", "f32[2048, 2048]", "f32[1, 2048]"), "library");
  EXPECT_EQ(tiles_of("bf16[1, 2047]", "bf16[2048, 2047]", "bf16[1, 2048]"), "library");
  EXPECT_EQ(tiles_of("bf16[512, 2048]", "bf16[2048, 2048]", "bf16[512, 2048]"), "tiles");
}

}  // namespace
}  // namespace toroid::schedule
