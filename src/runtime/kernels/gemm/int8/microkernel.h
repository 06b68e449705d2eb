// Strips of products of bytes with int8, exact sums of 32 bits that wrap: four elements of the depth at a time with AVX512_VNNI, two
// widened to 16 bits with AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

// Rows of the left side in pieces, their taps, each of so many words of 32 bits. A matrix's rows have one; a convolution's one for each
// element of its filters.
struct ByteRows {
  static constexpr int kStrip = 6;  // rows that are multiplied together, at most

  const uint32_t* const* pointers;  // [tap][kStrip], to places that need not be aligned
  int64_t taps, words;
  int64_t offset = 0;  // in bytes, of each pointer
};

struct ByteKernels {
  static constexpr int kMostRows = ByteRows::kStrip, kMostTiles = 4, kColumns = 16;

  int64_t elements;  // of the depth in a word of 32 bits: bytes of the left that are not signed, or numbers of 16 bits
  int tiles;         // of columns, at most, at a time
  // c[i, j] = the product of row i with column j of so many tiles of 16 columns, each [tap][word][column], `tile_words` apart.
  using Multiply = void (*)(const ByteRows& rows, const uint32_t* b, int64_t tile_words, int32_t* c, int64_t c_row);
  Multiply multiply[kMostRows][kMostTiles];  // by rows - 1 and tiles - 1
};
// Null where the machine has no such instructions.
const ByteKernels* vnni_kernels();
const ByteKernels* byte_pair_kernels();

}  // namespace toroid
