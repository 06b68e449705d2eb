// How much of the depth meets in a tile's register, and what the blocks' sums are added with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernels/gemm/bf16x3/split_vectors.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

// A sum in a tile's register is rounded with each of the six products of parts, small ones too: it errs more than one that as many float32s
// are added to. So less of the depth meets in a register than in vectors (kDepth in macrokernel.cpp): 512 to 1023 elements. The end of a
// block takes up to 130 cycles, for four tiles and 64 vectors to store, beside 384 of each step: 2 % of 16.
inline int64_t blocks_of_depth(int64_t steps) {
  constexpr int64_t kLeastSteps = 16;
  return std::max<int64_t>(1, steps / kLeastSteps);
}

// Those of two tiles by two, before they are added to what the other blocks of the depth have.
struct SumsOfBlock {
  static constexpr int64_t kRow = 2 * kTileSide;
  alignas(64) float data[2 * kTileSide * kRow];

  // sums = before + these, in so many tiles. Out of line: the loop beside it is compiled without vectors.
  __attribute__((noinline)) void add_to(const float* before, int64_t row_before, float* sums, int64_t row, int64_t row_tiles,
                                        int64_t column_tiles) const {
#ifdef __x86_64__
    if (vector_set() == VectorSet::Avx512) return add_in_vectors(before, row_before, sums, row, row_tiles, column_tiles);
#endif
    for (int64_t i = 0; i < row_tiles * kTileSide; ++i) {
      for (int64_t j = 0; j < column_tiles * kTileSide; ++j) sums[i * row + j] = before[i * row_before + j] + data[i * kRow + j];
    }
  }

#ifdef __x86_64__
 private:
  TOROID_AVX512 void add_in_vectors(const float* before, int64_t row_before, float* sums, int64_t row, int64_t row_tiles,
                                    int64_t column_tiles) const {
    for (int64_t i = 0; i < row_tiles * kTileSide; ++i) {
      for (int64_t j = 0; j < column_tiles * kTileSide; j += kTileSide) {
        _mm512_storeu_ps(sums + i * row + j,
                         _mm512_add_ps(_mm512_loadu_ps(before + i * row_before + j), _mm512_load_ps(data + i * kRow + j)));
      }
    }
  }
#endif
};

}  // namespace toroid
