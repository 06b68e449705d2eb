// Which products of few rows have the kernel that reads the right side once, in what tiles, and how many blocks share them.
#include "schedule/cuda/products/few_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/cuda/products/few_rows_ring.h"
#include "schedule/cuda/products/few_rows_tiled.h"
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
  const std::string parts = call.gpu->shares > 1 ? fmt::format(" in {} parts", call.gpu->shares) : "";
  return fmt::format("{} by {}, {} blocks{}", call.gpu->rows, call.gpu->columns, cuda_grid_of(*made.schedule.loops, call).blocks.value(),
                     parts);
}

TEST(FewRows, GoThroughARingInTilesThatLeaveFewMultiprocessorsIdle) {
  EXPECT_EQ(tiles_of("bf16[1, 2048]", "bf16[2048, 2048]", "bf16[1, 2048]"), "8 by 16, 128 blocks");
  EXPECT_EQ(tiles_of("bf16[1, 2048]", "bf16[3072, 2048]", "bf16[1, 3072]"), "8 by 8, 132 blocks");
  EXPECT_EQ(tiles_of("bf16[1, 2048]", "bf16[16384, 2048]", "bf16[1, 16384]"), "8 by 16, 132 blocks");
  EXPECT_EQ(tiles_of("f16[2, 4096]", "f16[14336, 4096]", "f16[2, 14336]"), "8 by 16, 132 blocks");
}

TEST(FewRows, HaveTheirLeftSideInRegistersInPartsOfTheDepth) {
  EXPECT_EQ(tiles_of("f16[12, 4096]", "f16[14336, 4096]", "f16[12, 14336]"), "16 by 16, 132 blocks");
  EXPECT_EQ(tiles_of("bf16[8, 4096]", "bf16[14336, 4096]", "bf16[8, 14336]"), "8 by 16, 132 blocks");
  EXPECT_EQ(tiles_of("bf16[8, 14336]", "bf16[4096, 14336]", "bf16[8, 4096]"), "8 by 16, 132 blocks in 4 parts");
  EXPECT_EQ(tiles_of("bf16[2, 65536]", "bf16[2048, 65536]", "bf16[2, 2048]"), "8 by 16, 128 blocks in 16 parts");
}

// As a schedule's text or a lock may ask for it.
TEST(FewRows, RefuseMoreOfALeftSideThanRegistersHave) {
  const Scheduled made =
      scheduled("graph(x: bf16[8, 65536], w: bf16[2048, 65536]) {\n  y: bf16[8, 2048] = aten::linear(x, w)\n  return y\n}",
                cuda_planner(TensorCores::Hopper));
  const auto& call = std::get<CallStep>(made.schedule.steps[0]);
  const ProductAttempt product = as_product_of_tiles(*made.schedule.loops, call.call, call.outputs);
  GpuTiles tiles = *call.gpu;
  ASSERT_EQ(tiles.shares, 16);
  EXPECT_TRUE(is_few_rows_ring_plan(*product.shape, tiles));
  tiles.shares = 15;  // 72 registers
  EXPECT_FALSE(is_few_rows_ring_plan(*product.shape, tiles));
  tiles.shares = 1;
  EXPECT_FALSE(is_few_rows_ring_plan(*product.shape, tiles));
}

TEST(FewRows, RefuseMorePartsOfTheDepthThanThereAreChunks) {
  const Scheduled made = scheduled("graph(x: bf16[8, 512], w: bf16[2048, 512]) {\n  y: bf16[8, 2048] = aten::linear(x, w)\n  return y\n}",
                                   cuda_planner(TensorCores::Hopper));
  const auto& call = std::get<CallStep>(made.schedule.steps[0]);
  const ProductAttempt product = as_product_of_tiles(*made.schedule.loops, call.call, call.outputs);
  GpuTiles tiles = *call.gpu;
  tiles.shares = 8;  // chunks of 64
  EXPECT_TRUE(is_few_rows_ring_plan(*product.shape, tiles));
  tiles.shares = 9;
  EXPECT_FALSE(is_few_rows_ring_plan(*product.shape, tiles));
  tiles.shares = 200;  // more than there are multiprocessors
  EXPECT_FALSE(is_few_rows_ring_plan(*product.shape, tiles));
  tiles.shares = 0;
  tiles.depth_warps = 0;
  EXPECT_FALSE(is_few_rows_ring_plan(*product.shape, tiles));
  tiles.depth_warps = 8;
  tiles.columns = 0;
  EXPECT_FALSE(is_few_rows_plan(*product.shape, tiles));
}

TEST(FewRows, HaveTilesInRegistersOfFewColumnsAndPartsOfChunks) {
  EXPECT_EQ(tiles_of("f16[12, 4096]", "f16[14344, 4096]", "f16[12, 14344]"), "16 by 112, 129 blocks");
  EXPECT_EQ(tiles_of("bf16[1, 2056]", "bf16[2048, 2056]", "bf16[1, 2048]"), "8 by 8, 256 blocks");
  EXPECT_EQ(tiles_of("bf16[8, 4096]", "bf16[4096, 14336]", "bf16[8, 14336]", false), "8 by 64, 224 blocks");
}

TEST(FewRows, AreThoseOfTilesBeyondSixteenOr32) {
  EXPECT_EQ(tiles_of("bf16[16, 4096]", "bf16[14336, 4096]", "bf16[16, 14336]"), "16 by 16, 132 blocks");
  EXPECT_EQ(tiles_of("bf16[17, 4096]", "bf16[14336, 4096]", "bf16[17, 14336]"), "32 by 128, 112 blocks");
  EXPECT_EQ(tiles_of("bf16[32, 14336]", "bf16[4096, 14336]", "bf16[32, 4096]"), "32 by 128, 132 blocks");
  EXPECT_EQ(tiles_of("bf16[32, 4096]", "bf16[4096, 4096]", "bf16[32, 4096]"), "tiles");  // which are small
  EXPECT_EQ(tiles_of("bf16[17, 4096]", "bf16[4096, 14336]", "bf16[17, 14336]", false), "tiles");
  EXPECT_EQ(tiles_of("bf16[33, 4096]", "bf16[14336, 4096]", "bf16[33, 14336]"), "tiles");
  EXPECT_EQ(tiles_of("bf16[64, 4096]", "bf16[14336, 4096]", "bf16[64, 14336]"), "tiles");
}

TEST(FewRows, HaveNoMoreBlocksThanParts) {
  EXPECT_EQ(tiles_of("bf16[3, 64]", "bf16[16, 64]", "bf16[3, 16]"), "8 by 8, 2 blocks");
  EXPECT_EQ(tiles_of("bf16[s0, 64]", "bf16[16, 64]", "bf16[s0, 16]"), "8 by 8, 264 blocks");
}

TEST(FewRows, AreAsOtherProductsWhereTheyWouldShareTilesOfContiguousRows) {
  EXPECT_EQ(tiles_of("bf16[8, 4096]", "bf16[4096, 4096]", "bf16[8, 4096]", false), "tiles");
}

TEST(FewRows, MayBeOfBytes) {
  const auto product = [](std::string_view x, std::string_view w, std::string_view y) {
    const std::string text = fmt::format("graph(x: {}, w: {}) {{\n  y: {} = aten::_int_mm(x, w)\n  return y\n}}", x, w, y);
    const Scheduled made = scheduled(text, cuda_planner(TensorCores::Hopper),
                                     {.integer_products_as_loops = true, .narrow_weights = NarrowWeights::KeptForFewRows});
    const auto* call = std::get_if<CallStep>(&made.schedule.steps.back());
    if (call == nullptr) return std::string("loops");
    if (!call->gpu) return std::string("library");
    return fmt::format("{} by {}, {} blocks", call->gpu->rows, call->gpu->columns,
                       cuda_grid_of(*made.schedule.loops, *call).blocks.value());
  };
  EXPECT_EQ(product("i8[8, 4096]", "i8[4096, 14336] strides [1, 4096]", "i32[8, 14336]"), "8 by 64, 224 blocks");
  EXPECT_EQ(product("i8[64, 4096]", "i8[4096, 14336] strides [1, 4096]", "i32[64, 14336]"), "library");
  EXPECT_EQ(product("i8[8, 4095]", "i8[4095, 14336]", "i32[8, 14336]"), "loops");
  EXPECT_EQ(product("i8[64, 4096]", "i8[4096, 14335]", "i32[64, 14335]"), "loops");
}

// Constant weights of [64, 32] bytes, cast to bfloat16.
std::string kept_weights(std::string_view dtype, std::string_view more) {
  const Scheduled made = scheduled(fmt::format(R"(
constant 0 "b": {0}[64, 32] = external
constant 1 "s": bf16[64, 1] = external
graph(x: bf16[4, 32]) {{
  b: {0}[64, 32] = constant(0)
  s: bf16[64, 1] = constant(1)
{1}
  y: bf16[4, 64] = aten::linear(x, w)
  return y
}})",
                                               dtype, more),
                                   cuda_planner(TensorCores::Hopper), {.narrow_weights = NarrowWeights::KeptForFewRows});
  const auto call = std::find_if(made.schedule.steps.begin(), made.schedule.steps.end(),
                                 [](const Step& step) { return std::holds_alternative<CallStep>(step); });
  if (call == made.schedule.steps.end()) return kinds_of_steps(made.schedule);
  const auto& product = std::get<CallStep>(*call);
  const DType of_weights = made.schedule.loops->buffer(product.call.operands[1].buffer).dtype;
  return fmt::format("{}{}: {}", to_string(of_weights), product.gpu ? "" : ", the library's", kinds_of_steps(made.schedule));
}

TEST(FewRows, KeepWeightsOfEightBits) {
  EXPECT_EQ(kept_weights("i8", "  w: bf16[64, 32] = aten::to.dtype(b, dtype.bf16)"), "i8: call");
  EXPECT_EQ(kept_weights("i8", "  v: bf16[64, 32] = aten::to.dtype(b, dtype.bf16)\n  w: bf16[64, 32] = aten::mul.Tensor(v, s)"),
            "i8: call+kernel");
  EXPECT_EQ(
      kept_weights("u8", "  v: f8e4m3fn[64, 32] = aten::view.dtype(b, dtype.f8e4m3fn)\n  w: bf16[64, 32] = aten::to.dtype(v, dtype.bf16)"),
      "f8e4m3fn: call");
  EXPECT_EQ(
      kept_weights("u8", "  v: f8e5m2[64, 32] = aten::view.dtype(b, dtype.f8e5m2)\n  w: bf16[64, 32] = aten::to.dtype(v, dtype.bf16)"),
      "f8e5m2: call");
  EXPECT_EQ(kept_weights("u8",
                         "  v: f8e4m3fn[64, 32] = aten::view.dtype(b, dtype.f8e4m3fn)\n  u: bf16[64, 32] = aten::to.dtype(v, dtype.bf16)\n"
                         "  w: bf16[64, 32] = aten::mul.Tensor(u, s)"),
            "f8e4m3fn: call+kernel");
}

// x [rows, depth] and constant bytes of [columns, depth].
Scheduled product_of_bytes(std::string_view rows, int columns, int depth, std::string_view dtype = "i8") {
  const std::string_view seen = dtype == "i8" ? "b" : "v", type = dtype == "i8" ? "i8" : "u8";
  const std::string view = dtype == "i8" ? "" : fmt::format("  v: {0}[{1}, {2}] = aten::view.dtype(b, dtype.{0})\n", dtype, columns, depth);
  return scheduled(fmt::format(R"(
sym s0 in [1, 32] hint 30
sym s1 in [1, 33] hint 30
constant 0 "b": {5}[{1}, {2}] = external
graph(x: bf16[{0}, {2}]) {{
  b: {5}[{1}, {2}] = constant(0)
{3}  w: bf16[{1}, {2}] = aten::to.dtype({4}, dtype.bf16)
  y: bf16[{0}, {1}] = aten::linear(x, w)
  return y
}})",
                               rows, columns, depth, view, seen, type),
                   cuda_planner(TensorCores::Hopper),
                   {.narrow_weights = NarrowWeights::KeptForFewRows, .most_rows_of_narrow_weights = kMostTiledRows});
}
std::string tiles_of_bytes(std::string_view rows, int columns, int depth) {
  const Scheduled made = product_of_bytes(rows, columns, depth);
  const auto* call = std::get_if<CallStep>(&made.schedule.steps.back());
  if (call == nullptr || made.schedule.loops->buffer(call->call.operands[1].buffer).dtype != DType::I8) return "widened";
  if (!call->gpu) return "library";
  return fmt::format("{} by {}, {} stages, {} blocks", call->gpu->rows, call->gpu->columns, call->gpu->stages,
                     cuda_grid_of(*made.schedule.loops, *call).blocks.value());
}
TEST(FewRows, OfNarrowWeightsHaveTilesUpTo32Rows) {
  EXPECT_EQ(tiles_of_bytes("16", 14336, 4096), "16 by 16, 3 stages, 132 blocks");
  EXPECT_EQ(tiles_of_bytes("17", 14336, 4096), "32 by 128, 6 stages, 112 blocks");
  EXPECT_EQ(tiles_of_bytes("32", 4096, 14336), "32 by 128, 6 stages, 132 blocks");  // which share 32 tiles
  EXPECT_EQ(tiles_of_bytes("32", 64, 128), "32 by 128, 6 stages, 1 blocks");
  EXPECT_EQ(tiles_of_bytes("s0", 4096, 4096), "32 by 128, 6 stages, 132 blocks");
  EXPECT_EQ(tiles_of_bytes("s1", 4096, 4096), "widened");  // of which there may be more
  EXPECT_EQ(tiles_of_bytes("33", 4096, 4096), "widened");
}

// A block has no more shared memory than Hopper gives, the kernel's own (stream_k.inc, some 128 bytes) among it: of any number of rows, of
// weights of each kind, in any stages that a lock may ask for.
TEST(FewRows, FitSharedMemoryOfAnyNumberOfRows) {
  constexpr int kOwnBytes = 1024;
  const auto expect_fits = [](const Scheduled& made, std::string_view what) {
    const auto* call = std::get_if<CallStep>(&made.schedule.steps.back());
    if (call == nullptr || !call->gpu || call->gpu->depth_warps == 0) return false;
    EXPECT_LE(cuda_grid_of(*made.schedule.loops, *call).shared_bytes, kMostSharedBytes - kOwnBytes) << what;
    const ProductAttempt product = as_product_of_tiles(*made.schedule.loops, call->call, call->outputs);
    GpuTiles tiles = *call->gpu;
    for (tiles.stages = 1; are_few_rows_tiled(tiles) && tiles.stages <= 16; ++tiles.stages) {
      if (!is_few_rows_plan(*product.shape, tiles)) continue;
      EXPECT_LE(few_rows_tiled_bytes(*product.shape, tiles), kMostSharedBytes - kOwnBytes) << what << ", " << tiles.stages;
    }
    return are_few_rows_tiled(tiles);
  };
  int tiled = 0;
  for (int rows = 1; rows <= 64; ++rows) {
    for (const std::string_view dtype : {"i8", "f8e4m3fn", "f8e5m2"})
      tiled += expect_fits(product_of_bytes(std::to_string(rows), 14336, 4096, dtype), fmt::format("{} rows of {}", rows, dtype));
    for (const std::string_view dtype : {"bf16", "f16"}) {
      const std::string text = fmt::format(
          "graph(x: {0}[{1}, 4096], w: {0}[14336, 4096]) {{\n  y: {0}[{1}, 14336] = aten::linear(x, w)\n"
          "  return y\n}}",
          dtype, rows);
      tiled += expect_fits(scheduled(text, cuda_planner(TensorCores::Hopper)), fmt::format("{} rows of {}", rows, dtype));
    }
  }
  EXPECT_EQ(tiled, 16 * 5);  // of 17 to 32 rows
  // Of four bits: as the planner counts them.
  for (const bool is_packed : {false, true}) {
    for (const int64_t group : {32, 64, 128}) {
      for (int rows = 17; rows <= 32; ++rows) {
        const ProductShape shape{.rows = rows,
                                 .columns = 14336,
                                 .depth = 4096,
                                 .a = {.stride = 4096},
                                 .b = {.transposed = true, .stride = 2048},
                                 .numbers = RightNumbers::Int4,
                                 .is_packed = is_packed && group == 128,
                                 .is_for_few_rows = true,
                                 .group = group};
        const std::optional<GpuTiles> tiles = choose_few_rows_tiled(shape);
        ASSERT_TRUE(tiles);
        EXPECT_LE(few_rows_tiled_bytes(shape, *tiles), kMostSharedBytes - kOwnBytes) << rows << ", " << group;
      }
    }
  }
}

TEST(FewRows, MayBeOfFloat32ByColumns) {
  EXPECT_EQ(tiles_of("f32[1, 2048]", "f32[2048, 2048]", "f32[1, 2048]"), "1 by 8, 256 blocks");
  EXPECT_EQ(tiles_of("f32[5, 4096]", "f32[14336, 4096]", "f32[5, 14336]"), "8 by 64, 112 blocks");
  EXPECT_EQ(tiles_of("f32[16, 4096]", "f32[4096, 4096]", "f32[16, 4096]"), "16 by 32, 128 blocks");
  EXPECT_EQ(tiles_of("f32[17, 4096]", "f32[4096, 4096]", "f32[17, 4096]"), "library");
  EXPECT_EQ(tiles_of("f32[1, 2048]", "f32[2048, 2048]", "f32[1, 2048]", false), "library");
}

TEST(FewRows, AreInPiecesOfSixteenBytes) {
  EXPECT_EQ(tiles_of("bf16[1, 2047]", "bf16[2048, 2047]", "bf16[1, 2048]"), "library");
  EXPECT_EQ(tiles_of("bf16[512, 2048]", "bf16[2048, 2048]", "bf16[512, 2048]"), "tiles");
}

}  // namespace
}  // namespace toroid::schedule
