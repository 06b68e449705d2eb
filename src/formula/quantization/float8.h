// 8-bit floats: F8E4M3FN (4 bits of exponent, 3 of mantissa, no infinities) and F8E5M2, after Micikevicius et al., 2022.
//
// No core operation computes with them: their bits are U8 tensors, and conversions are formulas over bits.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

inline bool is_float8(DType dtype) { return dtype == DType::F8E4M3FN || dtype == DType::F8E5M2; }

// The values of bits of `dtype`, as F32.
Tensor float8_values(Tensor bits, DType dtype);
// The same as F16 and a power of two by which to multiply: what tensor cores take.
Tensor float8_halves(Tensor bits, DType dtype);
double float8_half_scale(DType dtype);
// The bits of floats rounded to `dtype`, to even in the middle; what is too large becomes NaN, or infinite in F8E5M2.
Tensor float8_bits(Tensor values, DType dtype);

// The scale of a factor x of a product, in F32: a number, or one for each element of x's dim `own`, 0 or 1, with size 1 along the other.
// Throws Error{Unsupported} for other scales.
Tensor scale_of_factor(Tensor x, Tensor scale, size_t own);

}  // namespace toroid::formula
