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

// Not within the function below: a thread that only runs its bodies would not pass their definitions, and not free them.
inline Scratch scratch_for_left_tiles, scratch_for_tile_sums;

// Where a block's sums go.
struct TileBlock {
  const std::byte* left;  // the first packed tile of rows
  int64_t row_tiles;
  int64_t first_column, last_column;  // tiles
  float* sums;
};

// pack(first_row, rows, out) packs a tile of rows, `left_tile_bytes` of them, or fewer; multiply(block) makes sums. Both run on all
// threads, multiply with TileRegisters in scope.
template <class Pack, class Multiply>
void for_each_tile_block(RuntimePool& pool, int64_t m, int64_t n, int64_t left_tile_bytes, const Pack& pack, const Multiply& multiply,
                         const ProductOutput& out) {
  constexpr int64_t kLeftBytes = int64_t{4} << 20, kBlockBytes = int64_t{5} << 18;  // of rows at a time, in all and in a block
  const int64_t tile_bytes = std::max<int64_t>(left_tile_bytes, kTileRowBytes);
  const int64_t block_tiles = std::clamp<int64_t>(kBlockBytes / tile_bytes / 2 * 2, 2, kMostBlockTiles);
  const int64_t at_once = std::max(kLeftBytes / tile_bytes / block_tiles, int64_t{1}) * block_tiles;
  const int64_t panels = (n + kPanelColumns - 1) / kPanelColumns;
  for (int64_t begin_tile = 0; begin_tile < tiles_of(m); begin_tile += at_once) {
    const int64_t tiles = std::min(at_once, tiles_of(m) - begin_tile), begin_row = begin_tile * kTileSide;
    auto* left = reinterpret_cast<std::byte*>(scratch_for_left_tiles.get(tiles * tile_bytes / kWordBytes));
    pool.parallel_for(tiles, 2, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t row = begin_row + tile * kTileSide;
        pack(row, std::min(kTileSide, m - row), left + tile * left_tile_bytes);
      }
    });
    const int64_t blocks = (tiles + block_tiles - 1) / block_tiles;
    const int64_t groups = panel_groups(pool, blocks, panels);
    pool.parallel_for(blocks * groups, 1, [&](int64_t begin, int64_t end) {
      const TileRegisters registers;
      float* sums = scratch_for_tile_sums.get(kMostBlockTiles * kTileSide * kPanelColumns);
      for (int64_t task = begin; task < end; ++task) {
        // Tasks that follow each other share panels.
        const int64_t part = task % blocks, group = task / blocks;
        const int64_t first = tiles * part / blocks, last = tiles * (part + 1) / blocks;
        for (int64_t panel = panels * group / groups; panel < panels * (group + 1) / groups; ++panel) {
          multiply(TileBlock{left + first * left_tile_bytes, last - first, panel * kPanelTiles,
                             std::min((panel + 1) * kPanelTiles, tiles_of(n)), sums});
          const int64_t column = panel * kPanelColumns;
          out.take(sums, kPanelColumns, {begin_row + first * kTileSide, std::min(m, begin_row + last * kTileSide)},
                   {column, std::min(column + kPanelColumns, n)});
        }
      }
    });
  }
}

}  // namespace toroid
