// Products of 17 to 64 rows with weights of eight or four bits, which become 16-bit floats in registers, once for all rows
// (codegen/cuda/prelude/products/few_rows_tiled.inc). In 16 bits such weights would take two to four times as long to read.
//
//   rows x depth x columns      tiles            blocks
//   64 x 4096 x 14336           64 by 128        112, a tile each
//   24 x 14336 x 4096           32 by 128        132, which share the depth of 32 tiles (stream-K)
//
// Of up to sixteen rows, and of weights of 16 bits, few_rows.h has the kernels. Blocks have as much shared memory as Hopper's may.
#pragma once

#include <optional>

#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

inline constexpr int64_t kMostTiledRows = 64;
inline constexpr int kTiledRowsThreads = 256;

// By their warps, two of which share the depth.
bool are_few_rows_tiled(const GpuTiles& tiles);
bool is_few_rows_tiled_plan(const ProductShape& shape, const GpuTiles& tiles);
// None where there is no such kernel: of weights of 16 bits, two right sides, scales of an odd number of columns.
std::optional<GpuTiles> choose_few_rows_tiled(const ProductShape& shape);
int few_rows_tiled_depth(const ProductShape& shape);                         // of a stage
int few_rows_tiled_bytes(const ProductShape& shape, const GpuTiles& tiles);  // of a block's shared memory

}  // namespace toroid::schedule
