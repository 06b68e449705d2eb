// A convolution of one image plane with one filter.
#pragma once

#include <cstdint>

namespace toroid {

// Sizes of a plane, its filter and its result: rows, then columns.
struct PlaneConvolution {
  int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
};

// out += the plane `in` convolved with `filter`, all contiguous, zeros beyond the plane's edges. Takes one thread.
void convolve_plane_f32(const PlaneConvolution& shape, const float* in, const float* filter, float* out);

}  // namespace toroid
