// Which products by groups are one kernel on a GPU, and their tiles.
#include "schedule/cuda/products/grouped_product.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

std::string grouped_choice_of(std::string_view x, std::string_view y, std::string_view made, TensorCores cores = TensorCores::Hopper) {
  const Scheduled scheduled_graph =
      scheduled(fmt::format("graph(x: {}, y: {}, n: i32[4]) {{\n  z: {} = aten::_grouped_mm(x, y, n)\n  return z\n}}", x, y, made),
                cuda_planner(cores));
  for (const Step& step : scheduled_graph.schedule.steps) {
    if (const auto* call = std::get_if<CallStep>(&step)) return call->choice;
  }
  return "no call";
}

TEST(GroupedProducts, AreAKernelWhereRowsAreInPieces) {
  EXPECT_EQ(grouped_choice_of("bf16[100, 64]", "bf16[4, 64, 72]", "bf16[100, 72]"), kGroupedProduct);
  EXPECT_EQ(grouped_choice_of("f16[100, 64]", "f16[4, 64, 72]", "f16[100, 72]", TensorCores::Warps), kGroupedProduct);
  EXPECT_EQ(grouped_choice_of("bf16[100, 64]", "bf16[4, 64, 72]", "bf16[100, 72]", TensorCores::None), "");
  EXPECT_EQ(grouped_choice_of("bf16[100, 60]", "bf16[4, 60, 72]", "bf16[100, 72]"), "") << "rows begin at 8 bytes";
  EXPECT_EQ(grouped_choice_of("bf16[100, 64]", "bf16[4, 64, 71]", "bf16[100, 71]"), "");
  EXPECT_EQ(grouped_choice_of("f32[100, 64]", "f32[4, 64, 72]", "f32[100, 72]"), "");
  EXPECT_EQ(grouped_choice_of("bf16[4, 100, 64]", "bf16[64, 72]", "bf16[100, 72]"), "") << "groups of columns";
  EXPECT_EQ(grouped_choice_of("bf16[100, 64]", "bf16[64, 72]", "bf16[4, 100, 72]"), "") << "the left side's columns are not contiguous";
}

TEST(GroupedProducts, HaveTilesForTheRowsOfAGroup) {
  EXPECT_EQ(grouped_tiles(8192, 32, 4096, false).rows, 128);
  EXPECT_EQ(grouped_tiles(64, 32, 4096, false).rows, 64);
  EXPECT_EQ(grouped_tiles(64, 32, 64, false).columns, 64);
  EXPECT_TRUE(blocks_of({.rows = 128, .columns = 128, .stages = 3}, 300, 4, 256, false).is_const((2 + 4 + 1) * 2));
  EXPECT_TRUE(blocks_of({.rows = 128, .columns = 128, .stages = 3}, 300, 4, 256, true).is_const(3 * 4 * 2));
  EXPECT_LE((GroupedTiles{.rows = 128, .columns = 128, .stages = 3}.shared_bytes()), 99 << 10) << "what every GPU's block may have";
}

}  // namespace
}  // namespace toroid::schedule
