#include "schedule/cuda/products/few_rows.h"

#include <algorithm>
#include <bit>

#include "schedule/cuda/products/few_rows_ring.h"
#include "schedule/cuda/products/few_rows_tiled.h"

namespace toroid::schedule {
namespace {

constexpr int kUnit = 8;                           // columns of a matrix of tensor cores
constexpr int kMostUnits = 14;                     // of a tile
constexpr int kWarpsAtOnce = 16;                   // of a multiprocessor
constexpr int kContiguousRows = 64;                // columns of a tile where the right side's rows are contiguous
constexpr int64_t kLeastContiguous = 192;          // tiles of those: fewer would have to be shared, and the library is quicker
constexpr int kOfFloats = 96, kAllOfFloats = 224;  // registers of a thread in float32: of two blocks at once, of one
constexpr int64_t kMostChunks = (int64_t{1} << 31) - 1, kLeastDepth = 16;

// As FewRowsCopied in the prelude.
int copied_bytes(const GpuTiles& tiles) {
  constexpr int kPadding = 4, kUnitBytes = 512, kScalesOfUnit = 64;
  const int of_units = tiles.columns / kUnit * (tiles.stages * kUnitBytes + (tiles.stages + 1) * kScalesOfUnit);
  const int sums = tiles.rows * (tiles.columns + kPadding) * 4;
  return tiles.depth_warps * (of_units + sums);
}
// Do threads copy the right side into shared memory ahead (few_rows_copied.inc)? Numbers of four bits in many tiles of little depth, over
// whose ends copies go on: elsewhere registers begin sooner.
constexpr int kCopiedUnits = 8;
bool is_copied(const ProductShape& shape, const GpuTiles& tiles) {
  if (is_few_rows_stationary(tiles)) return false;
  constexpr int kChunk = 128, kLeastTiles = kMultiprocessors * 3 / 2, kMostDepth = 16 * kChunk;
  const bool is_one = shape.batches.is_const(1) && shape.rows.is_const() && shape.rows.value() <= kUnit && tiles.rows == kUnit;
  return is_one && shape.numbers == RightNumbers::Int4 && !shape.is_packed && few_rows_chunk(shape) == kChunk &&
         tiles.columns == kCopiedUnits * kUnit && shape.depth.value() <= kMostDepth && shape.columns.value() % 2 == 0 &&
         shape.columns.value() > kLeastTiles * tiles.columns;
}
std::optional<GpuTiles> copied_tiles(const ProductShape& shape) {
  const GpuTiles tiles{.rows = kUnit, .columns = kCopiedUnits * kUnit, .stages = 1, .cluster = 1, .depth_warps = 8};
  return is_copied(shape, tiles) ? std::optional(tiles) : std::nullopt;
}

// Chunks that a thread's registers hold, in words of both sides, besides its sums and what it has of the left side at work.
int stages_of(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kRegisters = 83, kAllRegisters = 187, kMostStages = 4;  // beyond them some spill
  const bool is_int4 = shape.numbers == RightNumbers::Int4;
  const int units = tiles.columns / kUnit;
  if (shape.factors == Factors::Floats32) {
    const int free_of_floats = few_rows_blocks_at_once(shape, tiles) == 1 ? kAllOfFloats : kOfFloats;
    return std::clamp((free_of_floats - units * tiles.rows) / (4 * (units + tiles.rows)), 1, kMostStages - 1);
  }
  const int eights = tiles.rows / kUnit, of_unit = is_int4 ? 6 : shape.numbers == RightNumbers::OfLeft ? 8 : 4;
  const int of_left = eights * (is_int4 ? 16 : 8), sums = (units + 1) / 2 * eights * 4;
  const int free = (few_rows_blocks_at_once(shape, tiles) == 1 ? kAllRegisters : kRegisters) - sums - of_left;
  return std::clamp(free / (units * of_unit + of_left), 1, kMostStages);
}

}  // namespace

bool has_few_rows_kernel(const ProductShape& shape) {
  if (shape.factors == Factors::Floats8) return false;
  const bool is_known = shape.columns.is_const() && shape.depth.is_const() && shape.batches.is_const();
  const int of_piece = shape.factors == Factors::Int8 ? 16 : shape.factors == Factors::Floats16 ? 8 : 4;
  if (!is_known || shape.a.transposed || shape.depth.value() % of_piece != 0 || (shape.second && !shape.b.transposed)) return false;
  if (!shape.b.transposed && shape.columns.value() % kUnit != 0) return false;
  const sym::Range rows = shape.rows.is_const() ? sym::Range{shape.rows.value(), shape.rows.value()} : shape.rows.range();
  const int64_t chunks = (shape.columns.value() / kUnit + 1) * (shape.depth.value() / kLeastDepth + 1) * shape.batches.value();
  return rows.max / kUnit + 1 <= kMostChunks / chunks;
}

bool is_few_rows_plan(const ProductShape& shape, const GpuTiles& tiles) {
  const bool is_float32 = shape.factors == Factors::Floats32, is_power = tiles.rows > 0 && (tiles.rows & (tiles.rows - 1)) == 0;
  const bool has_rows = is_power && (is_float32 ? tiles.rows <= 16 : tiles.rows >= kUnit && tiles.rows <= 64);
  const int units = tiles.columns / kUnit;
  const bool has_units = (units == 1 && !shape.second) || (units > 0 && units % 2 == 0 && units <= kMostUnits);
  const bool has_columns = tiles.columns % kUnit == 0 && (shape.b.transposed ? has_units : tiles.columns == kContiguousRows);
  const bool has_warps = tiles.depth_warps == 4 || tiles.depth_warps == 8;
  if (!has_few_rows_kernel(shape)) return false;
  if (are_few_rows_tiled(tiles)) return is_few_rows_tiled_plan(shape, tiles);
  if (is_few_rows_stationary(tiles)) return is_few_rows_ring_plan(shape, tiles);
  if (!has_rows || !has_columns || !has_warps) return false;
  if (is_few_rows_by_ring(shape, tiles)) return is_few_rows_ring_plan(shape, tiles);
  constexpr int kMostStages = 8;
  return tiles.stages >= 1 && tiles.stages <= kMostStages && tiles.cluster == 1 && !tiles.ping_pong &&
         few_rows_grid(shape, tiles).shared_bytes <= kMostSharedBytes;
}

std::optional<GpuTiles> choose_few_rows(const ProductShape& shape, bool has_bulk_copies) {
  const int64_t rows = sym::evaluate_hint(shape.rows);
  const bool is_narrow = shape.numbers != RightNumbers::OfLeft, may_be_tiled = !shape.second && has_bulk_copies;
  if (rows > (may_be_tiled ? kMostTiledRows : kMostFewRows) || !has_few_rows_kernel(shape)) return std::nullopt;
  if (rows > kMostFewRows) {
    const std::optional<GpuTiles> tiled = choose_few_rows_tiled(shape);
    if (tiled || !is_narrow) return tiled;
  }
  if (has_bulk_copies) {
    if (const std::optional<GpuTiles> by_ring = choose_few_rows_ring(shape)) return by_ring;
  }
  if (const std::optional<GpuTiles> copied = copied_tiles(shape)) return copied;
  GpuTiles tiles{.rows = rows <= 8 ? 8 : 16, .columns = kContiguousRows, .stages = 1, .cluster = 1, .depth_warps = 8};
  const bool is_float32 = shape.factors == Factors::Floats32;
  if (is_float32) tiles.rows = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(rows, 1))));
  const auto tiles_of = [&](int64_t columns) { return (shape.columns.value() + columns - 1) / columns * shape.batches.value(); };
  if (!shape.b.transposed) return tiles_of(kContiguousRows) >= kLeastContiguous ? std::optional(tiles) : std::nullopt;
  // The least columns, and starts and ends of tiles, that the blocks of a multiprocessor go through; where some of them have none, as if
  // they had: fewer read the right side more slowly. Beside narrow weights the left side counts as more columns.
  const int start = kUnit + (!is_narrow ? 0 : shape.numbers == RightNumbers::Int4 ? 2 * tiles.rows : tiles.rows);  // as so many columns
  int64_t least = 0;
  int most = 8;
  if (tiles.rows == 16) most = is_float32 ? 4 : few_rows_blocks_at_once(shape, tiles) == 1 ? kMostUnits : most;  // tiles of 64 columns
  for (int units = 1; units <= most; units += units == 1 || is_float32 ? units : 2) {
    GpuTiles tried = tiles;
    if (shape.second && units == 1) continue;
    tried.columns = kUnit * units;
    if (!has_bulk_copies && is_few_rows_by_ring(shape, tried)) continue;
    const int64_t at_once = is_narrow ? 1 : few_rows_blocks_at_once(shape, tried), slots = kMultiprocessors * at_once;
    const int64_t cost = (tiles_of(result_columns(shape, tried)) + slots - 1) / slots * at_once * (tried.columns + start);
    if (least > 0 && cost >= least) continue;
    least = cost;
    tiles.columns = tried.columns;
  }
  tiles.stages = stages_of(shape, tiles);
  return tiles;
}

std::vector<GpuTiles> few_rows_candidates(const ProductShape& shape) {
  const int64_t rows = sym::evaluate_hint(shape.rows);
  constexpr int64_t kMostRowsTried = 64;
  std::vector<GpuTiles> result;
  if (rows > kMostRowsTried || !has_few_rows_kernel(shape)) return result;
  if (const std::optional<GpuTiles> by_ring = choose_few_rows_ring(shape)) result.push_back(*by_ring);
  if (const std::optional<GpuTiles> tiled = choose_few_rows_tiled(shape); tiled && rows > kUnit && rows <= kMostTiledRows)
    result.push_back(*tiled);
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

bool are_few_rows_copied(const ProductShape& shape, const GpuTiles& tiles) { return is_copied(shape, tiles); }

int few_rows_chunk(const ProductShape& shape) {
  if (shape.numbers == RightNumbers::Int4) return shape.group % 128 == 0 ? 128 : shape.group % 64 == 0 ? 64 : 32;
  if (shape.factors != Factors::Floats16) return shape.factors == Factors::Int8 ? 128 : 16;
  return shape.b.transposed ? 64 : 32;
}

int few_rows_chunk_bytes(const ProductShape& shape) {
  const int depth = few_rows_chunk(shape);
  if (shape.numbers == RightNumbers::Int4) return depth / 2;
  return shape.numbers == RightNumbers::OfLeft && shape.factors != Factors::Int8 ? (shape.factors == Factors::Floats32 ? 4 : 2) * depth
                                                                                 : depth;
}

int few_rows_blocks_at_once(const ProductShape& shape, const GpuTiles& tiles) {
  if (is_few_rows_stationary(tiles) || is_few_rows_by_ring(shape, tiles) || are_few_rows_tiled(tiles)) return 1;
  if (is_copied(shape, tiles)) return kWarpsAtOnce / tiles.depth_warps;
  if (shape.factors == Factors::Floats32) {
    const int units = tiles.columns / kUnit, of_two_stages = units * tiles.rows + 8 * (units + tiles.rows);
    return std::max(1, (of_two_stages > kOfFloats ? kWarpsAtOnce / 2 : kWarpsAtOnce) / tiles.depth_warps);
  }
  const bool is_of_bytes = shape.numbers != RightNumbers::OfLeft && shape.numbers != RightNumbers::Int4;
  const int most_columns = tiles.rows == kUnit || is_of_bytes || !shape.b.transposed ? kContiguousRows : kContiguousRows / 2;
  const bool has_many_registers = tiles.rows > 16 || tiles.columns > most_columns;
  return std::max(1, (has_many_registers ? kWarpsAtOnce / 2 : kWarpsAtOnce) / tiles.depth_warps);
}

CudaGrid few_rows_grid(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kPadding = 4;
  constexpr int64_t kLeastWhole = 32;
  if (is_few_rows_stationary(tiles) || is_few_rows_by_ring(shape, tiles)) return few_rows_ring_grid(shape, tiles);
  const int64_t slots = int64_t{kMultiprocessors} * few_rows_blocks_at_once(shape, tiles);
  if (is_copied(shape, tiles)) {
    const int64_t all = (shape.columns.value() + tiles.columns - 1) / tiles.columns, each = (all + slots - 1) / slots;
    return {.blocks = (all + each - 1) / each, .threads = 32 * tiles.depth_warps, .shared_bytes = copied_bytes(tiles)};
  }
  const bool is_tiled = are_few_rows_tiled(tiles);
  const int64_t chunk = is_tiled ? few_rows_tiled_depth(shape) : few_rows_chunk(shape), chunks = (shape.depth.value() + chunk - 1) / chunk;
  int64_t blocks = slots;
  if (shape.rows.is_const()) {
    const auto tiles_of = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    const int64_t all = std::max<int64_t>(
        tiles_of(shape.rows.value(), tiles.rows) * tiles_of(shape.columns.value(), result_columns(shape, tiles)) * shape.batches.value(),
        1);
    blocks = std::min(slots, all * chunks);
    // Whole tiles, where that leaves few multiprocessors idle: putting parts together takes some microseconds.
    const int64_t each = tiles_of(all, slots);
    const bool is_whole = each == 1 && !is_tiled ? all >= kLeastWhole : all * 10 >= each * slots * 7;
    if (is_whole) blocks = tiles_of(all, each);
  }
  if (is_tiled) return {.blocks = blocks, .threads = kTiledRowsThreads, .shared_bytes = few_rows_tiled_bytes(shape, tiles)};
  const int shared_bytes = tiles.depth_warps * tiles.rows * (tiles.columns + kPadding) * 4;
  return {.blocks = blocks, .threads = 32 * tiles.depth_warps, .shared_bytes = shared_bytes};
}

}  // namespace toroid::schedule
