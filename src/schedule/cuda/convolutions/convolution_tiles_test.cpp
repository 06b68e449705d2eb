// Which convolutions a GPU's tensor cores make, with what follows, and which become loops.
#include "schedule/cuda/convolutions/convolution_tiles.h"
#include "schedule/cuda/convolutions/group_tiles.h"

#include <gtest/gtest.h>

#include <set>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "schedule/text/text.h"

namespace toroid::schedule {
namespace {

struct ConvolutionCase {
  const char* name;
  const char*
      steps;  // "128x64": a convolution in such tiles; "8 of 4x14": of so many groups; "loops": another kernel; without those that run once
  const char* graph;
};
void PrintTo(const ConvolutionCase& row, std::ostream* out) { *out << row.name; }

const ConvolutionCase kConvolutions[] = {
    {"with_bias_and_relu", "256x64+kernel", R"(
graph(x: bf16[64, 64, 56, 56], w: bf16[64, 64, 3, 3], b: bf16[64]) {
  y: bf16[64, 64, 56, 56] = aten::conv2d(x, w, b, [1, 1], [1, 1])
  z: bf16[64, 64, 56, 56] = aten::relu(y)
  v: bf16[64, 64, 54, 54] = aten::conv2d(z, w)
  return v
})"},
    {"many_pixels_and_filters", "128x192+kernel", R"(
graph(x: f16[64, 64, 56, 56], w: f16[256, 64, 1, 1]) {
  y: f16[64, 256, 56, 56] = aten::conv2d(x, w)
  return y
})"},
    {"with_a_residual", "128x64+kernel", R"(
graph(x: bf16[64, 64, 56, 56] strides [200704, 1, 3584, 64], w: bf16[64, 64, 3, 3], v: bf16[64, 64, 1, 1]) {
  y: bf16[64, 64, 56, 56] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  s: bf16[64, 64, 56, 56] = aten::add.Tensor(y, x)
  q: bf16[64, 64, 56, 56] = aten::conv2d(s, v)
  m: bf16[64, 64] = aten::mean.dim(q, [2, 3])
  return m
})"},
    {"a_result_in_planes", "128x192+kernel", R"(
graph(x: bf16[64, 256, 28, 28], w: bf16[256, 256, 3, 3], b: bf16[256]) {
  y: bf16[64, 256, 28, 28] = aten::conv2d(x, w, b, [1, 1], [1, 1])
  z: bf16[64, 256, 28, 28] = aten::relu(y)
  return z
})"},
    {"planes_that_are_no_packs", "128x128", R"(
graph(x: bf16[64, 256, 15, 15], w: bf16[256, 256, 3, 3], b: bf16[256]) {
  y: bf16[64, 256, 15, 15] = aten::conv2d(x, w, b, [1, 1], [1, 1])
  z: bf16[64, 256, 15, 15] = aten::relu(y)
  return z
})"},
    {"few_pixels", "128x128", R"(
graph(x: bf16[64, 512, 7, 7], w: bf16[512, 512, 3, 3]) {
  y: bf16[64, 512, 7, 7] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  return y
})"},
    {"any_number_of_images", "64x192+kernel", R"(
sym s0 in [1, 256] hint 64
graph(x: bf16[s0, 64, 56, 56], w: bf16[64, 64, 3, 3]) {
  y: bf16[s0, 64, 56, 56] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  return y
})"},
    {"few_pixels_of_32_bits", "64x64", R"(
graph(x: f32[64, 512, 7, 7], w: f32[512, 512, 3, 3]) {
  y: f32[64, 512, 7, 7] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  return y
})"},
    {"floats_of_32_bits", "128x64+kernel", R"(
graph(x: f32[4, 64, 56, 56], w: f32[64, 64, 3, 3], b: f32[64]) {
  y: f32[4, 64, 56, 56] = aten::conv2d(x, w, b, [1, 1], [1, 1])
  v: f32[4, 64, 54, 54] = aten::conv2d(y, w)
  return v
})"},
    {"groups", "128x64", R"(
graph(x: bf16[4, 64, 56, 56], w: bf16[64, 32, 3, 3]) {
  y: bf16[4, 64, 56, 56] = aten::conv2d(x, w, none, [1, 1], [1, 1], [1, 1], 2)
  return y
})"},
    {"narrow_groups", "4 of 14x14", R"(
graph(x: bf16[64, 256, 28, 28], w: bf16[256, 8, 3, 3]) {
  y: bf16[64, 256, 28, 28] = aten::conv2d(x, w, none, [1, 1], [1, 1], [1, 1], 32)
  return y
})"},
    {"groups_of_four_channels", "16 of 8x14", R"(
graph(x: bf16[64, 128, 56, 56], w: bf16[128, 4, 3, 3], b: bf16[128]) {
  y: bf16[64, 128, 56, 56] = aten::conv2d(x, w, b, [1, 1], [1, 1], [1, 1], 32)
  z: bf16[64, 128, 56, 56] = aten::relu(y)
  s: bf16[64, 128] = aten::mean.dim(z, [2, 3])
  return s
})"},
    {"an_odd_number_of_groups_of_four", "loops", R"(
graph(x: bf16[4, 12, 56, 56], w: bf16[12, 4, 3, 3]) {
  y: bf16[4, 12, 56, 56] = aten::conv2d(x, w, none, [1, 1], [1, 1], [1, 1], 3)
  return y
})"},
    {"narrow_groups_with_a_window_beyond_shared_memory", "loops", R"(
graph(x: bf16[4, 64, 200, 200], w: bf16[64, 8, 3, 3]) {
  y: bf16[4, 64, 72, 72] = aten::conv2d(x, w, none, [1, 1], [0, 0], [64, 64], 8)
  return y
})"},
    {"narrow_groups_of_32_bits", "loops", R"(
graph(x: f32[4, 64, 56, 56], w: f32[64, 8, 3, 3]) {
  y: f32[4, 64, 56, 56] = aten::conv2d(x, w, none, [1, 1], [1, 1], [1, 1], 8)
  return y
})"},
    {"filters_not_in_eights", "loops", R"(
graph(x: bf16[4, 64, 56, 56], w: bf16[3, 64, 1, 1]) {
  y: bf16[4, 3, 56, 56] = aten::conv2d(x, w)
  return y
})"},
    {"more_pixels_than_32_bits_count", "loops", R"(
graph(x: bf16[64, 64, 8192, 8192], w: bf16[64, 64, 1, 1]) {
  y: bf16[64, 64, 8192, 8192] = aten::conv2d(x, w)
  return y
})"},
    {"transposed", "64x128", R"(
graph(x: bf16[4, 64, 28, 28], w: bf16[64, 32, 2, 2]) {
  y: bf16[4, 32, 56, 56] = aten::conv_transpose2d.input(x, w, none, [2, 2])
  return y
})"},
    {"transposed_groups", "8 of 14x14", R"(
graph(x: bf16[64, 128, 28, 28], w: bf16[128, 4, 3, 3]) {
  y: bf16[64, 128, 28, 28] = aten::conv_transpose2d.input(x, w, none, [1, 1], [1, 1], [0, 0], 32)
  return y
})"},
    {"gradients_of_the_filters_of_groups", "64x128", R"(
graph(g: bf16[64, 128, 28, 28], x: bf16[64, 128, 28, 28], w: bf16[128, 4, 3, 3]) {
  a: bf16[64, 128, 28, 28], b: bf16[128, 4, 3, 3], c: bf16[128] = aten::convolution_backward(g, x, w, [128], [1, 1], [1, 1], [1, 1], false, [0, 0], 32, [false, true, false])
  return b
})"},
    {"gradients_of_the_filters_of_depthwise_convolutions", "loops", R"(
graph(g: bf16[64, 128, 28, 28], x: bf16[64, 128, 28, 28], w: bf16[128, 1, 3, 3]) {
  a: bf16[64, 128, 28, 28], b: bf16[128, 1, 3, 3], c: bf16[128] = aten::convolution_backward(g, x, w, [128], [1, 1], [1, 1], [1, 1], false, [0, 0], 128, [false, true, false])
  return b
})"},
    {"transposed_and_dilated", "loops", R"(
graph(x: bf16[4, 64, 28, 28], w: bf16[64, 32, 2, 2]) {
  y: bf16[4, 32, 57, 57] = aten::conv_transpose2d.input(x, w, none, [2, 2], [0, 0], [0, 0], 1, [2, 2])
  return y
})"},
};

// The step that writes what was convolved.
std::string step_of(const Schedule& schedule) {
  for (const Step& step : schedule.steps) {
    if (const auto* call = std::get_if<CallStep>(&step)) {
      if (!call->gpu) return "library";
      const std::string groups = call->gpu->groups > 0 ? fmt::format("{} of ", call->gpu->groups) : "";
      return groups + fmt::format("{}x{}{}", call->gpu->rows, call->gpu->columns, call->epilogue ? "+kernel" : "");
    }
  }
  return "loops";
}

class Convolutions : public testing::TestWithParam<ConvolutionCase> {};
TEST_P(Convolutions, AreMadeSo) {
  Scheduled made =
      scheduled(GetParam().graph, cuda_planner(TensorCores::Hopper), {.convolutions_as_loops = true, .convolutions_in_tiles = true});
  EXPECT_EQ(step_of(made.schedule), GetParam().steps);
  const std::string text = text_of_schedule(std::move(made));
  EXPECT_EQ(read_back(text), text);
}
// What eight threads read at once of groups in packs: four taps of two neighbouring pixels, each in another of the eight banks of 16 bytes.
TEST(GroupTiles, PadLinesSoThatTapsAreInDifferentBanks) {
  const ConvolutionShape shape{
      .dtype = DType::BF16, .image = {}, .filters = {}, .n = 64, .h = 28, .w = 28, .r = 3, .s = 3, .p = 28, .q = 28, .groups = 32};
  for (const int columns : {7, 8, 14, 28}) {
    const GpuTiles tiles{.rows = 4, .columns = columns, .stages = 1, .cluster = 1, .groups = 8};
    const int pitch = tiles.groups | 1, line = (columns + 2) * pitch + padding_of_lines(shape, tiles);
    for (int step = 0; step < 2; ++step) {
      std::set<int> places, banks;
      for (int tap = 4 * step; tap < 4 * step + 4; ++tap) {
        for (int pixel = 0; pixel < 2; ++pixel) places.insert(tap / 3 * line + (tap % 3 + pixel) * pitch);
      }
      for (const int place : places) banks.insert(place % 8);
      EXPECT_EQ(banks.size(), places.size()) << columns << " columns, step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Convolutions, testing::ValuesIn(kConvolutions), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid::schedule
