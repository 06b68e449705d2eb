// Affine quantisation: real numbers as integers of few bits.
//
//   q = clamp(round(x * (1/scale)) + zero_point, low, high)      x ~ (q - zero_point) * scale
//
// Rounding is to even. x is floating; quantised values are integers of any dtype; scales are floating, and zero points numbers of any
// dtype. PyTorch's kernels differ in the dtype of each step and in whether the zero point is added before rounding, which decides ties: so
// there is a function for each granularity. What is not said to be rounded has the dtype that tensors promote to.
#pragma once

#include <optional>
#include <variant>

#include "graph/builder.h"

namespace toroid::formula {

// An end of the range of quantised values: a number, or a tensor of one element.
using Bound = std::variant<Scalar, Tensor>;
struct QuantizedRange {
  Bound low, high;
};

// ---- one scale for all ------------------------------------------------------------------------------------------------

// In F32. Scale (F64) and zero point (F32) are of rank 0.
Tensor quantize_per_tensor(Tensor x, Tensor scale, Tensor zero_point, const QuantizedRange& range, DType dtype);
// Each step is rounded to `dtype`, floating. Scale and zero point are of rank 0 and F32, or F64 for an F64 dtype.
Tensor dequantize_per_tensor(Tensor q, Tensor scale, Tensor zero_point, DType dtype);

// ---- a scale for each channel, token or group -------------------------------------------------------------------------

// Scales and zero points are vectors along dim `axis`; without zero points, undefined, they are 0.
Tensor quantize_per_channel(Tensor x, Tensor scales, Tensor zero_points, int64_t axis, const QuantizedRange& range, DType dtype);
Tensor dequantize_per_channel(Tensor q, Tensor scales, Tensor zero_points, int64_t axis, DType dtype);

// A token is a run of the last dim: scales and zero points are [.., 1]. The zero point is added before rounding.
Tensor quantize_per_token(Tensor x, Tensor scales, Tensor zero_points, const QuantizedRange& range, DType dtype);
Tensor dequantize_per_token(Tensor q, Tensor scales, Tensor zero_points, DType dtype);

// The rows of a matrix in groups of `size` elements: scales and zero points are [rows, groups]. A single group may be shorter than asked
// for. The zero point is added before rounding. Throws Error{InvalidModel} for another rank.
Tensor quantize_per_group(Tensor x, Tensor scales, Tensor zero_points, sym::Expr size, const QuantizedRange& range, DType dtype);
Tensor dequantize_per_group(Tensor q, Tensor scales, Tensor zero_points, sym::Expr size, DType dtype);

// ---- choosing scales and zero points ----------------------------------------------------------------------------------

struct QuantizationParameters {
  Tensor scale, zero_point;
};

// Of a whole tensor, F64 [1] and I64 [1]: its range, widened to hold 0, becomes that of quantised values. Scales are at least `eps`.
QuantizationParameters choose_parameters(Tensor x, double low, double high, double eps);
// … with the largest magnitude at the ends of the range, and 0 at `zero_point`.
QuantizationParameters choose_symmetric_parameters(Tensor x, double low, double high, double eps, int64_t zero_point);

// For int8 and each token, [.., 1], in x's dtype (F32 of F16): the largest magnitude becomes 127, and zero points are 0.
QuantizationParameters choose_parameters_per_token(Tensor x);
// … with zero points, of which the one that errs less at its end of the range is taken; F64 and I64, each step rounded to x's dtype.
QuantizationParameters choose_asymmetric_parameters_per_token(Tensor x);

}  // namespace toroid::formula
