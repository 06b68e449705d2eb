// Products of few rows whose right side comes through a ring in shared memory, by bulk copies (Hopper and later): lines of columns, of a
// stage each, which run ahead over the ends of tiles, and before the kernel ahead has ended.
//
//   left side in shared memory   one or two rows, of any depth; a prologue may make it     few_rows_ring.inc
//   left side in registers       up to sixteen rows, narrow weights; blocks have a part    few_rows_stationary.inc
//                                of the depth each (split-K), `shares` of GpuTiles parts
//
// A copy takes the warp that asks for it some 40 ns, so lines are long: 2 KiB, where the depth is.
#pragma once

#include <optional>

#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

bool is_few_rows_by_ring(const ProductShape& shape, const GpuTiles& tiles);
bool is_few_rows_stationary(const GpuTiles& tiles);
// For a product that has a kernel by registers (few_rows.h); none where another is as quick.
std::optional<GpuTiles> choose_few_rows_ring(const ProductShape& shape);
bool is_few_rows_ring_plan(const ProductShape& shape, const GpuTiles& tiles);

// As both kernels divide the depth.
struct RingLines {
  int chunks;          // of the depth that a warp has of a line
  int lines;           // of a tile's part of the depth, each a stage of the ring
  int tiles_of_group;  // that the blocks of a group, which have a part of the depth each, have at most
};
RingLines ring_lines(const ProductShape& shape, const GpuTiles& tiles);
CudaGrid few_rows_ring_grid(const ProductShape& shape, const GpuTiles& tiles);

}  // namespace toroid::schedule
