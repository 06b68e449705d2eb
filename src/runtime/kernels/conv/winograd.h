// Convolutions with 3x3 filters by fewer multiplications: Winograd's method (internal to runtime/).
#pragma once

#include <cstdint>

#include "runtime/kernels/conv/conv.h"

namespace toroid {

// The time of Winograd's method in tiles of so many outputs a side, 4 or 2, as a share of the time of the direct method, by an estimate of
// the work alone. A tenth is asked for the error. The shape must be one that the method takes.
struct WinogradEstimate {
  bool keeps_weights;  // the filters are constants
  bool in_parts;       // so does the direct method multiply (convolves_as_bf16x3)
  int64_t threads;
  double hidden;  // as of overlapped_s
};
double time_by_winograd(const ConvolutionShape& shape, int64_t tile, const WinogradEstimate& with);

// As plan_image_rows, in tiles of so many outputs a side. The image's channels lie next to each other; two spatial dims, a 3x3 filter,
// stride and dilation 1, one group, at least WinogradTransforms::kLeastChannels channels. A value that is not finite makes all outputs of
// the tiles that see it so.
std::unique_ptr<const KernelPlan> plan_winograd(const KernelCall& call, int64_t tile);

}  // namespace toroid
