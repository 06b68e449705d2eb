// Sums of depthwise convolutions of bytes: four taps of a column of the filter are one instruction of AVX512_VNNI.
//
//   rows of the image      a0 a1 a2 …      words      a0 b0 c0 d0 | a1 b1 c1 d1 | …
//                          b0 b1 b2 …  =>  times      filter's    | column      | …
//                          c0 c1 c2 …
//                          d0 d1 d2 …
//
// The words of a column of the image are made once for all positions that see it.
#pragma once

#include <cstdint>

namespace toroid {

struct ByteColumns {
  static constexpr int kRows = 4, kPositions = 4;  // of a word; that are summed together

  // Rows of the image that the filter's rows meet, each at the first of these channels, and how far its columns are apart: 0 for rows of
  // zeros. Four of each piece of the filter.
  const uint8_t* const* rows;
  const int64_t* steps;
  bool is_3x3;      // the filter
  int64_t pieces;   // of its rows, four each
  int64_t columns;  // of the filter
  int64_t stride;
  int64_t width;          // columns of the image
  const int32_t* filter;  // [column][piece][kChannels] words
};
struct DepthwiseByteKernel {
  int64_t channels;  // that it takes at a time
  // sums[i, j] = of channel j of `count` channels at the i-th of `positions` places (at most kPositions); the first one's window begins at
  // the image's column `first`, which may lie outside. Sums' rows are `row` apart, and each is written as a whole.
  void (*run)(const ByteColumns& image, int64_t first, int64_t positions, int64_t count, int32_t* sums, int64_t row);
};
// Of 64 channels, or of 32. Null where the machine has no such instructions.
const DepthwiseByteKernel* depthwise_byte_kernel(bool is_half);

}  // namespace toroid
