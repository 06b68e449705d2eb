// Products of 17 to 32 rows in tiles of all rows by 128 columns (codegen/cuda/prelude/products/few_rows_tiled.inc). Weights of eight or
// four bits become 16-bit floats in registers, once for all rows; weights of 16 bits have such tiles where they are large.
//
//   rows x depth x columns      tiles            blocks
//   24 x 4096 x 14336           32 by 128        112, a tile each
//   24 x 14336 x 4096           32 by 128        132, which share the depth of 32 tiles (stream-K)
//
// Of up to sixteen rows few_rows.h has quicker kernels. Of 64 rows the same kernel took longer than that of floats in 16 bits
// (docs/measured/gpu-limits.md). Blocks have as much shared memory as Hopper's may.
#pragma once

#include <optional>

#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

inline constexpr int kMostTiledRows = 32;
inline constexpr int kTiledRowsThreads = 256;

// By their warps, two of which share the depth.
bool are_few_rows_tiled(const GpuTiles& tiles);
bool is_few_rows_tiled_plan(const ProductShape& shape, const GpuTiles& tiles);
// None where there is no such kernel, as of two right sides and of scales of an odd number of columns, and for small weights of 16 bits.
std::optional<GpuTiles> choose_few_rows_tiled(const ProductShape& shape);
int few_rows_tiled_depth(const ProductShape& shape);                         // of a stage
int few_rows_tiled_bytes(const ProductShape& shape, const GpuTiles& tiles);  // of a block's shared memory

}  // namespace toroid::schedule
