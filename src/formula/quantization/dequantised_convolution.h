// Convolutions of dequantised tensors by dequantised filters, as products of the integers.
//
//   x = (p - zero_p) * scale_p                 rows = windows of p, [N*o, k*C], zero_p in the margin
//   w = (q - zero_q) * scale_q          =>     y = ((rows - zero_p) * scale_p) @ ((q as [k*C, O]) - zero_q) * scale_q
//   y = convolution(x, w)
//
// The product becomes one of bytes (math/dequantised_product.h). So are those of filters of one element; channels are last in its rows.
// Others become convolutions of the codes as I32, which a target multiplies as bytes (lower/convolutions/convolution_of_bytes.h), where
// filters have no zero points and one or two spatial dims. Their sums are exact:
//
//   y = (convolution(p padded with zero_p, q) - zero_p * sum(q)) * (scale_p * scale_q)
//
// Transposed convolutions stay as they are, and of several groups those of fewer than four channels each, unless they are depthwise, and
// those whose filters have zero points.
#pragma once

#include "formula/convolution/convolution.h"
#include "formula/quantization/byte_convolutions.h"

namespace toroid::formula {

// x [N, C, i…], weight [O, C, k…], both F32; the geometry has an entry a dim. [N, O, o…], without bias. Undefined where the tensors are
// not such, where scale or zero point of x differ within it or those of the weight within an output channel, and where it is none of
// `which`.
Tensor dequantised_convolution(Tensor x, Tensor weight, const ConvolutionGeometry& geometry, ByteConvolutions which);

}  // namespace toroid::formula
