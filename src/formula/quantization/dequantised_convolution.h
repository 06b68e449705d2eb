// Convolutions of dequantised tensors by dequantised filters, as products of the integers.
//
//   x = (p - zero_p) * scale_p                 rows = windows of p, [N*o, k*C], zero_p in the margin
//   w = (q - zero_q) * scale_q          =>     y = ((rows - zero_p) * scale_p) @ ((q as [k*C, O]) - zero_q) * scale_q
//   y = convolution(x, w)
//
// The product becomes one of bytes (math/dequantised_product.h). Channels are last in its rows, so that a window's row is copied whole.
// Depthwise ones become convolutions of the codes as I32, with zero_p in the margin as well, which a target multiplies as bytes
// (lower/convolutions/depthwise_of_bytes.h). Sums are exact:
//
//   y = (convolution(padded p, q) - zero_p * sum(q)) * (scale_p * scale_q)
//
// Other groups and transposed convolutions stay as they are: a group's rows are short.
#pragma once

#include "formula/nn/convolution.h"

namespace toroid::formula {

// Elements of a depthwise filter: sums of more are not written out (lower/convolutions/depthwise_of_bytes.h).
constexpr int64_t kMostDepthwiseTaps = 49;

// x [N, C, i…], weight [O, C, k…], both F32; the geometry has an entry a dim. [N, O, o…], without bias. Undefined where the tensors are
// not such, where scale or zero point of x differ within it or those of the weight within an output channel.
Tensor dequantised_convolution(Tensor x, Tensor weight, const ConvolutionGeometry& geometry);

}  // namespace toroid::formula
