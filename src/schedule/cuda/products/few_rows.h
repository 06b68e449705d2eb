// Products of few rows on a GPU, which take as long as reading their right side: those of decoding, a vector or some times a matrix.
//
// A kernel of the program's own reads the right side once, straight into the registers that tensor cores read; all blocks have the same
// share of it (codegen/cuda/prelude/products/few_rows.inc), or on Hopper through a ring in shared memory (few_rows_ring.h). The left side
// has contiguous rows. The right side may be weights of eight or four bits, which become 16-bit floats on the way (narrow_columns.inc).
#pragma once

#include <optional>

#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

inline constexpr int64_t kMostFewRows = 16;  // of more the library reads the left side less often

// By the sizes' hints: of at most sixteen rows, where it is as quick as the library; on Hopper of up to 32 (few_rows_tiled.h).
// `has_bulk_copies`: Hopper has, for the ring.
std::optional<GpuTiles> choose_few_rows(const ProductShape& shape, bool has_bulk_copies = true);
// Tiles that it may have; none where no kernel can.
std::vector<GpuTiles> few_rows_candidates(const ProductShape& shape);
// Is there a kernel for these tiles?
bool is_few_rows_plan(const ProductShape& shape, const GpuTiles& tiles);
// Is there a kernel by registers, in some tiles? Others need one, too.
bool has_few_rows_kernel(const ProductShape& shape);
// Do threads copy it into shared memory ahead of what they multiply (few_rows_copied.inc)?
bool are_few_rows_copied(const ProductShape& shape, const GpuTiles& tiles);
// Of the depth, what a warp takes at once.
int few_rows_chunk(const ProductShape& shape);
int few_rows_chunk_bytes(const ProductShape& shape);  // of a column
int few_rows_blocks_at_once(const ProductShape& shape, const GpuTiles& tiles);
// A known number of blocks.
CudaGrid few_rows_grid(const ProductShape& shape, const GpuTiles& tiles);

}  // namespace toroid::schedule
