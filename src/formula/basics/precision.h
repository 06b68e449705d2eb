// Where a formula is computed: reduced floats (F16, BF16) widen to F32 on the way in and round once on the way out, so
// that a decomposition of several steps loses no more than PyTorch's own kernel does.
#pragma once

#include "graph/builder.h"

namespace toroid {

// F32 for integers and Bool: what functions that need real numbers compute on.
inline DType as_floating(DType dtype) { return is_floating(dtype) ? dtype : DType::F32; }

// Throws Error{Unsupported} for a complex dtype.
void require_real(DType dtype);
inline Tensor require_real(Tensor x) { return require_real(x.dtype()), x; }

// x in the dtype its sums and special functions are computed in.
inline Tensor wide(Tensor x) { return x.defined() ? x.builder().cast(x, compute_dtype(x.dtype())) : x; }

// Applies `f` to x in its compute dtype (F32 for F16 and BF16; integers and Bool become F32) and rounds the result back to
// x's own floating dtype (F32 for integers).
template <class F>
Tensor compute_wide(Tensor x, F f) {
  const DType dtype = as_floating(x.dtype());
  Builder& b = x.builder();
  return b.cast(f(b.cast(x, compute_dtype(dtype))), dtype);
}

// x as a program that converts it to `dtype` has it: 16-bit floats are rounded there and then. A cast alone lets kernels keep
// them as F32 until they are stored; the bits of a 16-bit float are what was rounded.
inline Tensor converted(Tensor x, DType dtype) {
  Builder& b = x.builder();
  const Tensor y = b.cast(x, dtype);
  const bool loses_nothing = x.dtype() == dtype || (size_bytes(x.dtype()) == 1 && !is_floating(x.dtype()));  // eight bits are a bfloat16
  if (loses_nothing || !is_reduced_float(dtype)) return y;
  return b.emit(Bitcast{}, {y}, {{.dtype = dtype, .sizes = y.sizes()}})[0];
}

// The sum over `dims`, accumulated wide, in x's own dtype.
inline Tensor wide_sum(Tensor x, const Dims& dims) {
  Builder& b = x.builder();
  return b.cast(b.sum(wide(x), dims), x.dtype());
}

inline bool is_number(const Scalar& scalar, int64_t value) {
  if (const auto* flag = std::get_if<bool>(&scalar)) return static_cast<int64_t>(*flag) == value;
  if (const auto* real = std::get_if<double>(&scalar)) return *real == static_cast<double>(value);
  return std::get<sym::Expr>(scalar).is_const(value);
}

// x * factor in x's dtype; a factor of 1 costs nothing. The factor of integers is made an integer first: 0.6 is 0.
inline Tensor scaled(Tensor x, const Scalar& factor) {
  if (is_number(factor, 1)) return x;
  Builder& b = x.builder();
  Tensor y = wide(x);
  return b.cast(b.pointwise(ScalarOp::Mul, {y, b.scalar(y.dtype(), factor)}), x.dtype());
}

}  // namespace toroid
