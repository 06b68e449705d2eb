// Matrix products in tiles (isa/amx.h) of any sizes and strides.
#pragma once

#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/pool/pool.h"

namespace toroid {

// Elements of the kind that is multiplied, strides in elements.
struct TileMatrix {
  const void* data;
  int64_t row, column;
};

// Bytes of a packed right side: its tiles of 16 columns one after the other, each with all its depth, what is missing 0. A left side is
// packed in the same way, its rows taking the columns' place.
int64_t packed_tiles_bytes(AmxType numbers, int64_t k, int64_t n);
void pack_right_tiles(AmxType numbers, const TileMatrix& b, int64_t k, int64_t n, std::byte* out);
void pack_right_tiles(AmxType numbers, RuntimePool& pool, const TileMatrix& b, int64_t k, int64_t n, std::byte* out);
void pack_left_tiles(AmxType numbers, const TileMatrix& a, int64_t m, int64_t k, std::byte* out);

// The product of packed sides, by one thread, with TileRegisters in scope. The right side may have been packed with more depth, `right_k`.
// Rows and columns of sums are written up to the next multiple of 16.
void multiply_packed_tiles(AmxType numbers, int64_t m, int64_t n, int64_t k, const std::byte* left, const std::byte* right, int64_t right_k,
                           float* sums, int64_t row);

// The left side of a product: tiles of rows that begin `tile_bytes` apart, each with its steps one after the other or at these offsets.
struct TileRows {
  const std::byte* data;
  int64_t count, tile_bytes;
  const int64_t* offsets = nullptr;
  // In bytes; as packed, or rows of a matrix where they lie, of which the tiles from `copied` on are elsewhere.
  int64_t row_bytes = kTileRowBytes, step_bytes = kTileBytes;
  int64_t copied = count;
  const std::byte* copies = nullptr;

  const std::byte* tile(int64_t i) const { return i < copied ? data + i * tile_bytes : copies + (i - copied) * tile_bytes; }
};
// The product of these rows with the tiles of columns [first_column, last_column) of a packed right side with as many steps. Takes
// TileRegisters in scope.
void multiply_tile_rows(AmxType numbers, const TileRows& rows, int64_t steps, const std::byte* right, int64_t first_column,
                        int64_t last_column, float* sums, int64_t row);

// a times the packed matrix; rows are read where they lie if they are as tiles have them. The sums of Int8 are int32_t, whatever the type
// of `out` says: for store_as(DType::I32, …) and functions.
void multiply_in_tiles(AmxType numbers, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const std::byte* packed,
                       const ProductOutput& out);
// The same on the calling thread alone.
void multiply_in_tiles(AmxType numbers, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const std::byte* packed,
                       const ProductOutput& out);

}  // namespace toroid
