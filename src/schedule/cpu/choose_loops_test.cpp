#include <gtest/gtest.h>

#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

// Heads of [tokens, 3, heads, width] as [3, heads, width, tokens], with a bias that every token reads again: tiles of what is read, whole
// vectors of what is written.
TEST(ChooseLoops, TilesComeBeforeScatteredStores) {
  const Scheduled program = scheduled(R"(
graph(x: f32[1024, 144], b: f32[144]) {
  a: f32[1024, 144] = aten::add.Tensor(x, b)
  v: f32[1024, 3, 48] = aten::view(a, [1024, 3, 48])
  y: f32[3, 48, 1024] = aten::permute(v, [1, 2, 0])
  z: f32[3, 48, 1024] = aten::clone(y, memory_format=format.contiguous)
  return z
})");
  EXPECT_EQ(kinds_of_steps(program.schedule), "kernel");
  const auto& kernel = std::get<Kernel>(program.schedule.steps.at(0));
  EXPECT_EQ(kernel.vector, VectorAlong::Outer);
  ASSERT_TRUE(kernel.tile);
  EXPECT_EQ(kernel.tiled_loads.size(), 1u);
  EXPECT_EQ(sym::evaluate_hint(*kernel.outer.back().node()->extent), 1024);
}

// Rows of eight elements are no tiles.
TEST(ChooseLoops, ShortRowsAreStoredAcross) {
  const Scheduled program = scheduled(R"(
graph(x: f32[1024, 8], b: f32[8]) {
  a: f32[1024, 8] = aten::add.Tensor(x, b)
  y: f32[8, 1024] = aten::t(a)
  z: f32[8, 1024] = aten::clone(y, memory_format=format.contiguous)
  return z
})");
  const auto& kernel = std::get<Kernel>(program.schedule.steps.at(0));
  EXPECT_FALSE(kernel.tile);
}

}  // namespace
}  // namespace toroid::schedule
