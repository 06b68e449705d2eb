// Convolutions with 3x3 filters by fewer multiplications: Winograd's method (internal to runtime/).
#pragma once

#include <cstdint>

#include "runtime/convolution.h"

namespace toroid {

// The side of the tiles of outputs, 4 or 2, with which Winograd's method is faster than the direct one; 0: with none, or it cannot
// do what the call asks for. By an estimate of the work alone.
int64_t winograd_tile(const KernelCall& call, const ConvolutionShape& shape);

// As convolve_to_channels_last, in tiles of so many outputs a side. The image's channels lie next to each other; two spatial dims,
// a 3x3 filter, stride and dilation 1, one group, at least WinogradTransforms::kLeastChannels channels. A value that is not finite
// makes all outputs of the tiles that see it so.
void convolve_by_winograd(const KernelCall& call, const ConvolutionShape& shape, int64_t tile);

}  // namespace toroid
