// Which sums over taps a GPU makes for several pixels at once.
#include "schedule/cuda/sliding_window.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

// "pixels × vector" of a depthwise convolution's kernel with a filter of each channel, or "none".
std::string window_of(std::string_view dtype, int channels, std::string_view image, std::string_view filter, std::string_view numbers,
                      std::string_view result) {
  const Scheduled made = scheduled(fmt::format(R"(graph(a: {0}[64, {1}, {2}], w: {0}[{1}, 1, {3}]) {{
  y: {0}[64, {1}, {5}] = aten::conv2d(a, w, none, {4}, {1})
  return y
}})",
                                               dtype, channels, image, filter, numbers, result),
                                   cuda_planner(TensorCores::Hopper), {.convolutions_as_loops = true, .convolutions_in_tiles = true});
  for (const Step& step : made.schedule.steps) {
    const auto* kernel = std::get_if<Kernel>(&step);
    if (kernel != nullptr && kernel->gpu->pixels > 1) return fmt::format("{} x {}", kernel->gpu->pixels, kernel->gpu->vector);
  }
  return "none";
}

TEST(SlidingWindow, IsOfAWholeLineOrADivisor) {
  EXPECT_EQ(window_of("bf16", 384, "28, 28", "7, 7", "[1, 1], [3, 3], [1, 1]", "28, 28"), "28 x 2");
  EXPECT_EQ(window_of("bf16", 384, "28, 14", "7, 7", "[1, 1], [3, 3], [1, 1]", "28, 14"), "28 x 2") << "of the first taps";
  EXPECT_EQ(window_of("f32", 384, "28, 56", "3, 3", "[1, 1], [1, 1], [1, 1]", "28, 56"), "28 x 2");
  EXPECT_EQ(window_of("bf16", 384, "28, 37", "3, 7", "[1, 1], [1, 3], [1, 1]", "28, 37"), "28 x 2");
}
TEST(SlidingWindow, MovesBySeveralTaps) {
  EXPECT_EQ(window_of("bf16", 384, "56, 56", "3, 3", "[2, 2], [1, 1], [1, 1]", "28, 28"), "28 x 2");
}
TEST(SlidingWindow, IsNoneOfSpreadTapsOrFewPixels) {
  EXPECT_EQ(window_of("bf16", 384, "28, 28", "3, 3", "[1, 1], [2, 2], [2, 2]", "28, 28"), "none");
  EXPECT_EQ(window_of("bf16", 8, "8, 8", "3, 3", "[1, 1], [1, 1], [1, 1]", "8, 8"), "none");
}

}  // namespace
}  // namespace toroid::schedule
