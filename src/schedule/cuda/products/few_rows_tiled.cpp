#include "schedule/cuda/products/few_rows_tiled.h"

#include <algorithm>

#include "schedule/cuda/products/few_rows.h"

namespace toroid::schedule {
namespace {

constexpr int kHalves = 2, kTiledColumns = 128;
constexpr int kLeastTiledStages = 2, kMostTiledStages = 6;
constexpr int kTiledSharedBytes = kMostSharedBytes - 1024;  // but for what the kernel has of its own (stream_k.inc)

bool has_tiled_scales(const ProductShape& shape) { return shape.numbers == RightNumbers::Int4; }

// As TiledRowsRing in the prelude.
int bytes_before_stages(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kPadding = 4;
  const int chunks = few_rows_tiled_depth(shape) / few_rows_chunk(shape);
  const int row_sums = has_tiled_scales(shape) ? 2 * chunks * tiles.rows * 4 : 0;
  return kHalves * tiles.rows * (kTiledColumns + kPadding) * 4 + row_sums;
}
int bytes_of_tiled_stage(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kPieceDepth = 32, kPadding = 64, kScale = 8;
  const int depth = few_rows_tiled_depth(shape), chunk = few_rows_chunk(shape), chunks = depth / chunk;
  const int left = depth / kPieceDepth * (tiles.rows * 2 * kPieceDepth + kPadding);
  return left + chunks * kTiledColumns * (few_rows_chunk_bytes(shape) + (has_tiled_scales(shape) ? kScale : 0));
}

}  // namespace

bool are_few_rows_tiled(const GpuTiles& tiles) { return tiles.depth_warps == kHalves; }

int few_rows_tiled_depth(const ProductShape& shape) { return has_tiled_scales(shape) ? 256 : 128; }

int few_rows_tiled_bytes(const ProductShape& shape, const GpuTiles& tiles) {
  return bytes_before_stages(shape, tiles) + tiles.stages * bytes_of_tiled_stage(shape, tiles);
}

bool is_few_rows_tiled_plan(const ProductShape& shape, const GpuTiles& tiles) {
  const bool is_kind = has_few_rows_kernel(shape) && shape.factors == Factors::Floats16 && shape.b.transposed && !shape.second &&
                       (!has_tiled_scales(shape) || shape.columns.value() % 2 == 0);
  const bool has_stages = tiles.stages >= kLeastTiledStages && tiles.stages <= kMostTiledStages;
  return is_kind && are_few_rows_tiled(tiles) && has_stages && tiles.rows == kMostTiledRows && tiles.columns == kTiledColumns &&
         tiles.cluster == 1 && tiles.shares == 0 && !tiles.ping_pong && few_rows_tiled_bytes(shape, tiles) <= kTiledSharedBytes;
}

std::optional<GpuTiles> choose_few_rows_tiled(const ProductShape& shape) {
  GpuTiles tiles{.rows = kMostTiledRows, .columns = kTiledColumns, .stages = kLeastTiledStages, .cluster = 1, .depth_warps = kHalves};
  if (!is_few_rows_tiled_plan(shape, tiles)) return std::nullopt;
  if (shape.numbers == RightNumbers::OfLeft) {
    constexpr int64_t kLeastOfBlock = 8;  // stages: of fewer, their start and end count
    const int64_t depth = few_rows_tiled_depth(shape), stages = (shape.depth.value() + depth - 1) / depth;
    const int64_t all = (shape.columns.value() + kTiledColumns - 1) / kTiledColumns * stages;
    const bool is_one = shape.rows.is_const() && shape.batches.is_const(1);
    if (!is_one || shape.columns.value() * 2 < kTiledColumns || all < kLeastOfBlock * kMultiprocessors) return std::nullopt;
  }
  const int room = kTiledSharedBytes - bytes_before_stages(shape, tiles);
  tiles.stages = std::clamp(room / bytes_of_tiled_stage(shape, tiles), kLeastTiledStages, kMostTiledStages);
  return tiles;
}

}  // namespace toroid::schedule
