// Matrix products in tiles (tiles.h) of any sizes and strides.
#pragma once

#include "runtime/pool.h"
#include "runtime/tiles.h"
#include "toroid/program_abi.h"

namespace toroid {

// Elements of the kind that is multiplied, strides in elements.
struct TileMatrix {
  const void* data;
  int64_t row, column;
};

// Bytes of a packed right side: its tiles of 16 columns one after the other, each with all its depth, what is missing 0.
int64_t packed_tiles_bytes(TileNumbers numbers, int64_t k, int64_t n);
void pack_right_tiles(TileNumbers numbers, RuntimePool& pool, const TileMatrix& b, int64_t k, int64_t n, std::byte* out);

// a times the packed matrix. The epilogue gets the sums; those of Int8 are int32_t, whatever its pointer's type says.
void multiply_in_tiles(TileNumbers numbers, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const std::byte* packed,
                       const ToroidEpilogue& epilogue);

}  // namespace toroid
