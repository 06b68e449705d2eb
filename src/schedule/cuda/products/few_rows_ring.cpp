#include "schedule/cuda/products/few_rows_ring.h"

#include <algorithm>

#include "schedule/cuda/products/few_rows.h"

namespace toroid::schedule {
namespace {

constexpr int kRingUnit = 8, kMostRingColumns = 16;  // columns of a matrix of tensor cores; of a tile
constexpr int kMostRingRows = 2;                     // more are as quick with the left side in registers
constexpr int kLeastRingTiles = 32;                  // of eight columns
constexpr int kLeastStationaryTiles = 8;
constexpr int kLeastRingStages = 2, kMostRingStages = 12;
// That a ring has at most. Beside a smaller one the first-level cache has more room for the left side, of which threads read pieces.
constexpr int kRingBytes = 200 << 10, kStationaryRingBytes = 112 << 10;
constexpr int kMostPartsOfDepth = 16;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int parts_of(const GpuTiles& tiles) { return std::max(tiles.shares, 1); }
bool has_scales_of_groups(const ProductShape& shape) { return shape.numbers == RightNumbers::Int4; }

// As FewRowsRing in the prelude.
int bytes_of_stage(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kScale = 8;
  const int between = shape.is_packed ? 0 : 64;
  const int chunks = ring_lines(shape, tiles).chunks * tiles.depth_warps;
  return tiles.columns * (chunks * few_rows_chunk_bytes(shape) + between + (has_scales_of_groups(shape) ? chunks * kScale : 0));
}
int64_t ring_bytes(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kPadding = 4, kBarriers = 256, kBetween = 64;
  const int64_t rows = shape.rows.value(), sums = 2 * tiles.depth_warps * rows * (tiles.columns + kPadding) * 4;
  const RingLines lines = ring_lines(shape, tiles);
  const int64_t of_rows = has_scales_of_groups(shape) ? int64_t{lines.lines} * lines.chunks * tiles.depth_warps * tiles.rows * 4 : 0;
  const int64_t left = is_few_rows_stationary(tiles) ? of_rows : rows * (2 * shape.depth.value() + kBetween);
  return kBarriers + int64_t{tiles.stages} * bytes_of_stage(shape, tiles) + sums + left;
}

bool may_have_ring(const ProductShape& shape) {
  return has_few_rows_kernel(shape) && shape.factors == Factors::Floats16 && shape.b.transposed && shape.batches.is_const(1) &&
         shape.rows.is_const() && shape.rows.value() <= kMostFewRows && shape.depth.value() % few_rows_chunk(shape) == 0;
}
bool may_be_stationary(const ProductShape& shape) {
  if (!may_have_ring(shape) || (has_scales_of_groups(shape) && (shape.second || few_rows_chunk(shape) != 128))) return false;
  const int64_t of_tile = shape.second ? kRingUnit : kMostRingColumns;
  return shape.columns.value() % of_tile == 0 && shape.columns.value() >= kLeastStationaryTiles * of_tile;
}
// Registers of a thread that has the left side.
int registers_of_left(const ProductShape& shape, const GpuTiles& tiles) {
  const RingLines lines = ring_lines(shape, tiles);
  return lines.lines * lines.chunks * few_rows_chunk(shape) / 8 * (tiles.rows / kRingUnit);
}
// Do threads have registers for a part of the depth, and is there one for each block?
bool may_have_parts(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kMostRegisters[] = {64, 128};  // of eight rows, of sixteen
  const int64_t chunks = shape.depth.value() / few_rows_chunk(shape);
  return tiles.shares <= std::min<int64_t>(kMostPartsOfDepth, chunks) &&
         registers_of_left(shape, tiles) <= kMostRegisters[tiles.rows / kRingUnit - 1];
}

// As many as have all of a block's lines, or as there is room for.
bool set_stages(const ProductShape& shape, GpuTiles& tiles) {
  const RingLines lines = ring_lines(shape, tiles);
  const int64_t all = int64_t{lines.tiles_of_group} * lines.lines, most = is_few_rows_stationary(tiles) ? kStationaryRingBytes : kRingBytes,
                room = most / bytes_of_stage(shape, tiles);
  tiles.stages = static_cast<int>(std::clamp<int64_t>(std::min(all, room), kLeastRingStages, kMostRingStages));
  while (tiles.stages > kLeastRingStages && ring_bytes(shape, tiles) > kMostSharedBytes) --tiles.stages;
  return ring_bytes(shape, tiles) <= kMostSharedBytes;
}

// Eight or sixteen columns, whichever leave fewer multiprocessors idle at the end.
std::optional<GpuTiles> tiles_by_ring(const ProductShape& shape) {
  GpuTiles tiles{.rows = kRingUnit, .columns = kMostRingColumns, .stages = kLeastRingStages, .cluster = 1, .depth_warps = 8};
  if (!is_few_rows_by_ring(shape, tiles)) return std::nullopt;
  const auto most_columns = [&](int64_t columns) {  // of a multiprocessor
    return divide_up(shape.columns.value(), columns * kMultiprocessors) * columns;
  };
  if (!shape.second && most_columns(kRingUnit) < most_columns(kMostRingColumns)) tiles.columns = kRingUnit;
  return set_stages(shape, tiles) ? std::optional(tiles) : std::nullopt;
}

// Parts of the depth, no fewer than registers need, in which the blocks read least; putting parts together takes as long as reading some
// more.
std::optional<GpuTiles> stationary_tiles(const ProductShape& shape) {
  constexpr int64_t kBytesOfParts = 64 << 10;
  if (!may_be_stationary(shape)) return std::nullopt;
  std::optional<GpuTiles> best;
  int64_t least = 0;
  GpuTiles tiles{
      .rows = shape.rows.value() <= kRingUnit ? kRingUnit : 2 * kRingUnit, .columns = kMostRingColumns, .cluster = 1, .depth_warps = 8};
  const int64_t chunks = shape.depth.value() / few_rows_chunk(shape);
  for (tiles.shares = 1; tiles.shares <= kMostPartsOfDepth; ++tiles.shares) {
    if (!may_have_parts(shape, tiles)) continue;
    const int64_t columns = int64_t{ring_lines(shape, tiles).tiles_of_group} * kMostRingColumns;
    const int64_t bytes = columns * divide_up(chunks, tiles.shares) * few_rows_chunk_bytes(shape) + (tiles.shares > 1 ? kBytesOfParts : 0);
    if (best && bytes >= least) continue;
    least = bytes;
    best = tiles;
  }
  // Of four bits, a block's only tile is quicker by registers.
  const bool is_small = best && has_scales_of_groups(shape) && ring_lines(shape, *best).tiles_of_group < 2;
  return best && !is_small && set_stages(shape, *best) ? best : std::nullopt;
}

}  // namespace

bool is_few_rows_stationary(const GpuTiles& tiles) { return tiles.depth_warps > 0 && tiles.shares > 0; }

bool is_few_rows_by_ring(const ProductShape& shape, const GpuTiles& tiles) {
  if (is_few_rows_stationary(tiles) || !may_have_ring(shape) || shape.numbers != RightNumbers::OfLeft) return false;
  GpuTiles least = tiles;
  least.stages = kLeastRingStages;
  return shape.rows.value() <= kMostRingRows && tiles.rows == kRingUnit && tiles.columns <= kMostRingColumns &&
         shape.columns.value() >= kLeastRingTiles * kRingUnit && ring_bytes(shape, least) <= kMostSharedBytes;
}

std::optional<GpuTiles> choose_few_rows_ring(const ProductShape& shape) {
  if (const std::optional<GpuTiles> tiles = tiles_by_ring(shape)) return tiles;
  return stationary_tiles(shape);
}

bool is_few_rows_ring_plan(const ProductShape& shape, const GpuTiles& tiles) {
  const bool has_stages = tiles.stages >= kLeastRingStages && tiles.stages <= kMostRingStages && tiles.cluster == 1 && !tiles.ping_pong;
  const bool has_columns = tiles.columns == kRingUnit || tiles.columns == kMostRingColumns;
  const bool has_rows = tiles.rows == kRingUnit || tiles.rows == 2 * kRingUnit;
  if (!has_stages || !has_columns || !has_rows || tiles.depth_warps < 1 || tiles.depth_warps > 16 || !may_have_ring(shape)) return false;
  const bool is_plan = is_few_rows_stationary(tiles)
                           ? may_be_stationary(shape) && tiles.rows >= shape.rows.value() && tiles.columns == kMostRingColumns &&
                                 (tiles.depth_warps == 8 || tiles.depth_warps == 16) && may_have_parts(shape, tiles)
                           : is_few_rows_by_ring(shape, tiles);
  return is_plan && ring_bytes(shape, tiles) <= kMostSharedBytes;
}

RingLines ring_lines(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kLineBytes = 2048;
  const int warps = tiles.depth_warps, of_line = std::max(1, kLineBytes / (few_rows_chunk_bytes(shape) * warps));
  const int64_t chunks = divide_up(divide_up(shape.depth.value(), few_rows_chunk(shape)), parts_of(tiles));
  const int64_t lines = divide_up(divide_up(chunks, warps), of_line), groups = kMultiprocessors / parts_of(tiles);
  const int64_t of_columns = divide_up(shape.columns.value(), result_columns(shape, tiles));
  return {.chunks = static_cast<int>(divide_up(chunks, lines * warps)),
          .lines = static_cast<int>(lines),
          .tiles_of_group = static_cast<int>(divide_up(of_columns, groups))};
}

CudaGrid few_rows_ring_grid(const ProductShape& shape, const GpuTiles& tiles) {
  const int64_t of_columns = divide_up(shape.columns.value(), result_columns(shape, tiles)), parts = parts_of(tiles);
  const int further = is_few_rows_stationary(tiles) ? 2 : 1;  // warps: one copies, one finishes tiles
  return {.blocks = std::min<int64_t>(of_columns, kMultiprocessors / parts) * parts,
          .threads = 32 * (tiles.depth_warps + further),
          .shared_bytes = static_cast<int>(std::min<int64_t>(ring_bytes(shape, tiles), INT32_MAX))};
}

}  // namespace toroid::schedule
