#include "schedule/cuda/few_rows.h"

#include <algorithm>

namespace toroid::schedule {
namespace {

constexpr int64_t kMostRows = 16;          // of more the library reads the left side less often
constexpr int kUnit = 8;                   // columns of a matrix of tensor cores
constexpr int kWarpsAtOnce = 16;           // of a multiprocessor
constexpr int kContiguousRows = 64;        // columns of a tile where the right side's rows are contiguous
constexpr int64_t kLeastContiguous = 192;  // tiles of those: fewer would have to be shared, and the library is quicker
constexpr int64_t kMostChunks = (int64_t{1} << 31) - 1, kLeastDepth = 32;

bool has_kernel(const ProductShape& shape) {
  const bool is_known = shape.columns.is_const() && shape.depth.is_const() && shape.batches.is_const();
  if (!is_known || shape.a.transposed || shape.depth.value() % kUnit != 0) return false;
  if (!shape.b.transposed && shape.columns.value() % kUnit != 0) return false;
  const sym::Range rows = shape.rows.is_const() ? sym::Range{shape.rows.value(), shape.rows.value()} : shape.rows.range();
  const int64_t chunks = (shape.columns.value() / kUnit + 1) * (shape.depth.value() / kLeastDepth + 1) * shape.batches.value();
  return rows.max / kUnit + 1 <= kMostChunks / chunks;
}

}  // namespace

bool is_few_rows_plan(const ProductShape& shape, const GpuTiles& tiles) {
  const bool has_rows = tiles.rows == 8 || tiles.rows == 16 || tiles.rows == 32 || tiles.rows == 64;
  const int units = tiles.columns / kUnit;
  const bool has_columns = tiles.columns % kUnit == 0 &&
                           (shape.b.transposed ? units == 1 || units == 2 || units == 4 || units == 8 : tiles.columns == kContiguousRows);
  const bool has_warps = tiles.depth_warps == 4 || tiles.depth_warps == 8;
  return has_kernel(shape) && has_rows && has_columns && has_warps && tiles.stages >= 1 && tiles.stages <= 8 && tiles.cluster == 1 &&
         !tiles.ping_pong && few_rows_grid(shape, tiles).shared_bytes <= kMostSharedBytes;
}

std::optional<GpuTiles> choose_few_rows(const ProductShape& shape) {
  const int64_t rows = sym::evaluate_hint(shape.rows);
  if (rows > kMostRows || !has_kernel(shape)) return std::nullopt;
  GpuTiles tiles{.rows = rows <= 8 ? 8 : 16, .columns = kContiguousRows, .stages = 1, .cluster = 1, .depth_warps = 8};
  const auto tiles_of = [&](int64_t columns) { return (shape.columns.value() + columns - 1) / columns * shape.batches.value(); };
  if (!shape.b.transposed) return tiles_of(kContiguousRows) >= kLeastContiguous ? std::optional(tiles) : std::nullopt;
  // The narrowest that all blocks have at once; a thread asks for as many bytes in each.
  const int64_t slots = int64_t{kMultiprocessors} * few_rows_blocks_at_once(tiles);
  tiles.columns = kUnit;
  while (tiles.columns < 4 * kUnit && tiles_of(tiles.columns) > slots) tiles.columns *= 2;
  tiles.stages = (shape.numbers == RightNumbers::Floats ? 4 : 8) * kUnit / tiles.columns;
  return tiles;
}

std::vector<GpuTiles> few_rows_candidates(const ProductShape& shape) {
  const int64_t rows = sym::evaluate_hint(shape.rows);
  constexpr int64_t kMostRowsTried = 64;
  std::vector<GpuTiles> result;
  if (rows > kMostRowsTried || !has_kernel(shape)) return result;
  const int tile_rows = rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : 64;
  for (const int columns : {kUnit, 2 * kUnit, 4 * kUnit, 8 * kUnit}) {
    for (const int depth_warps : {8, 4}) {
      for (const int loads : {4, 8}) {
        const GpuTiles tiles{.rows = tile_rows,
                             .columns = columns,
                             .stages = std::max(1, shape.b.transposed ? loads * kUnit / columns : loads / 4),
                             .cluster = 1,
                             .depth_warps = depth_warps};
        const bool is_there = std::ranges::find(result, tiles) != result.end();
        if (!is_there && is_few_rows_plan(shape, tiles)) result.push_back(tiles);
      }
    }
  }
  return result;
}

int few_rows_chunk(const ProductShape& shape) {
  if (shape.numbers == RightNumbers::Int4) return shape.group % 128 == 0 ? 128 : shape.group % 64 == 0 ? 64 : 32;
  return shape.b.transposed ? 64 : 32;
}

int few_rows_blocks_at_once(const GpuTiles& tiles) {
  return std::max(1, (tiles.rows > 32 ? kWarpsAtOnce / 2 : kWarpsAtOnce) / tiles.depth_warps);
}

CudaGrid few_rows_grid(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kPadding = 8;
  constexpr int64_t kLeastWhole = 32;
  const int64_t slots = int64_t{kMultiprocessors} * few_rows_blocks_at_once(tiles);
  const int64_t chunk = few_rows_chunk(shape), chunks = (shape.depth.value() + chunk - 1) / chunk;
  int64_t blocks = slots;
  if (shape.rows.is_const()) {
    const auto tiles_of = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    const int64_t all = std::max<int64_t>(
        tiles_of(shape.rows.value(), tiles.rows) * tiles_of(shape.columns.value(), tiles.columns) * shape.batches.value(), 1);
    blocks = std::min(slots, all * chunks);
    // Whole tiles, where that leaves few multiprocessors idle: putting parts together takes some microseconds.
    const int64_t each = tiles_of(all, slots);
    const bool is_whole = each == 1 ? all >= kLeastWhole : all * 10 >= each * slots * 7;
    if (is_whole) blocks = tiles_of(all, each);
  }
  const int shared_bytes = tiles.depth_warps * tiles.rows * (tiles.columns + kPadding) * 4;
  return {.blocks = blocks, .threads = 32 * tiles.depth_warps, .shared_bytes = shared_bytes};
}

}  // namespace toroid::schedule
