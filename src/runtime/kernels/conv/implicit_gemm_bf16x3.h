// Convolutions of a band of an image in parts (split.h), each element of which is split once, whatever the number of filter
// elements that see it.
#pragma once

#include "runtime/kernels/gemm/bf16x3/gemm.h"

namespace toroid {

// A band of rows of one image, padded, its channels next to each other, and what is made of it at stride 1.
struct PartsBand {
  const float* data;                // [height][width][channels]
  int64_t height, width, channels;  // channels: whole steps (kStepElements)
  int64_t kernel[2], dilation[2];
  int64_t out_columns;  // of which a row of the result has fewer than `width`

  int64_t out_rows() const { return height - (kernel[0] - 1) * dilation[0]; }
};

// The result's rows, positions one after the other from `first_row` on, in the panels [first, last) of the weights; their depth is
// [filter element][channel]. False, and nothing is done, where the band or these weights cannot be in parts. Takes one thread.
bool convolve_band(const PackedBf16x3& weights, int64_t first, int64_t last, const PartsBand& band, int64_t first_row,
                   const ProductOutput& out, const Fetching& fetching);

}  // namespace toroid
