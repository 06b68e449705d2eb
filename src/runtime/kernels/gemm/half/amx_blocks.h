// How a product in tiles is cut: rows that are packed together, blocks of them that meet a panel of columns and are given away one by one.
#pragma once

#include <algorithm>

#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/memory/scratch.h"
#include "runtime/pool/pool.h"

namespace toroid {

constexpr int64_t kPanelTiles = 4;                          // of columns, which are given away together
constexpr int64_t kPanelColumns = kPanelTiles * kTileSide;  // also the stride of a block's rows
constexpr int64_t kPartSteps = 8;       // of the depth: what two tiles of columns have of it stays in the first-level cache
constexpr int64_t kMostBlockTiles = 8;  // of rows
// The same of a depth of so many steps: in equal parts, one step more if need be, since sums would pass the cache for a short last one.
inline int64_t steps_of_part(int64_t steps) {
  return steps % kPartSteps == 0 ? kPartSteps : divide_up(steps, divide_up(steps, kPartSteps + 1));
}

// Not within the function below: a thread that only runs its bodies would not pass their definitions, and not free them.
inline Scratch scratch_for_left_tiles, scratch_for_tile_sums;

// Where a block's sums go.
struct TileBlock {
  const std::byte* left;  // the first packed tile of rows
  int64_t row_tiles;
  int64_t first_column, last_column;  // tiles
  float* sums;
};

// Tiles of rows that meet all columns, in blocks, and the rows and columns of the whole product.
struct TileRange {
  const std::byte* left;  // the first one
  int64_t tile_bytes, first, count, in_block;
  int64_t m, n;
};
// Of rows in a block, so that they stay in the second-level cache, and of few steps their sums in the first.
inline int64_t tiles_in_block(int64_t bytes_of_tile) {
  constexpr int64_t kBlockBytes = int64_t{5} << 18, kShallow = 4 * kTileBytes;
  if (bytes_of_tile <= kShallow) return kMostBlockTiles / 2;
  return std::clamp<int64_t>(kBlockBytes / std::max<int64_t>(bytes_of_tile, kTileRowBytes) / 2 * 2, 2, kMostBlockTiles);
}
// In the place of a pool: the calling thread, which may be one of a pool's that runs a body.
struct OneThread {
  template <class F>
  void parallel_for(int64_t n, int64_t /*grain*/, const F& body) const {
    if (n > 0) body(0, n);
  }
};
inline int64_t panel_groups(const OneThread&, int64_t, int64_t) { return 1; }

// multiply(block) makes sums, on all threads, with TileRegisters in scope.
template <class Pool, class Multiply>
void multiply_blocks(Pool& pool, const TileRange& range, const Multiply& multiply, const ProductOutput& out) {
  const int64_t panels = (range.n + kPanelColumns - 1) / kPanelColumns, blocks = (range.count + range.in_block - 1) / range.in_block;
  const int64_t groups = panel_groups(pool, blocks, panels);
  pool.parallel_for(blocks * groups, 1, [&](int64_t begin, int64_t end) {
    const TileRegisters registers;
    float* sums = scratch_for_tile_sums.get(kMostBlockTiles * kTileSide * kPanelColumns);
    for (int64_t task = begin; task < end; ++task) {
      // Tasks that follow each other share panels.
      const int64_t part = task % blocks, group = task / blocks;
      const int64_t first = range.count * part / blocks, last = range.count * (part + 1) / blocks;
      const Range rows = {(range.first + first) * kTileSide, std::min(range.m, (range.first + last) * kTileSide)};
      for (int64_t panel = panels * group / groups; panel < panels * (group + 1) / groups; ++panel) {
        multiply(TileBlock{range.left + first * range.tile_bytes, last - first, panel * kPanelTiles,
                           std::min((panel + 1) * kPanelTiles, tiles_of(range.n)), sums});
        const int64_t column = panel * kPanelColumns;
        out.take(sums, kPanelColumns, rows, {column, std::min(column + kPanelColumns, range.n)});
      }
    }
  });
}

// pack(first_row, rows, out) packs a tile of rows, `left_tile_bytes` of them, or fewer, on all threads; multiply as above.
template <class Pool, class Pack, class Multiply>
void for_each_tile_block(Pool& pool, int64_t m, int64_t n, int64_t left_tile_bytes, const Pack& pack, const Multiply& multiply,
                         const ProductOutput& out) {
  constexpr int64_t kLeftBytes = int64_t{4} << 20;  // of rows at a time
  const int64_t tile_bytes = std::max<int64_t>(left_tile_bytes, kTileRowBytes), block_tiles = tiles_in_block(tile_bytes);
  const int64_t at_once = std::max(kLeftBytes / tile_bytes / block_tiles, int64_t{1}) * block_tiles;
  for (int64_t begin_tile = 0; begin_tile < tiles_of(m); begin_tile += at_once) {
    const int64_t tiles = std::min(at_once, tiles_of(m) - begin_tile), begin_row = begin_tile * kTileSide;
    auto* left = reinterpret_cast<std::byte*>(scratch_for_left_tiles.get(tiles * tile_bytes / kWordBytes));
    pool.parallel_for(tiles, 2, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t row = begin_row + tile * kTileSide;
        pack(row, std::min(kTileSide, m - row), left + tile * left_tile_bytes);
      }
    });
    multiply_blocks(pool, {left, left_tile_bytes, begin_tile, tiles, block_tiles, m, n}, multiply, out);
  }
}

// The same of rows where they lie. tile_bytes: from tile to tile; read_bytes: that are read of each.
struct TilesInPlace {
  const std::byte* data;
  int64_t tile_bytes, read_bytes;
};
template <class Pool, class Multiply>
void for_each_block_in_place(Pool& pool, int64_t m, int64_t n, const TilesInPlace& left, const Multiply& multiply,
                             const ProductOutput& out) {
  multiply_blocks(pool, {left.data, left.tile_bytes, 0, tiles_of(m), tiles_in_block(left.read_bytes), m, n}, multiply, out);
}

}  // namespace toroid
