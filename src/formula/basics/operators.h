// Functions and operators over tensors, so that a decomposition reads like the formula in a textbook:
//
//   Tensor softplus = where(x > 20.0, x, log1p(exp(x)));
//
// Tensors in one call have one dtype (broadcasting is free); a number takes the dtype of the tensor beside it, so `n >
// 0.0` on an integer tensor compares integers. Comparisons are named functions where C++ would demand a bool (eq, ne).
#pragma once

#include <limits>

#include "graph/builder.h"

namespace toroid {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// `value` in x's dtype.
inline Tensor number_like(Tensor x, Scalar value) { return x.builder().scalar(x.dtype(), value); }

// A tensor, or a number that becomes one once its neighbour's dtype is known.
class Term {
 public:
  Term(Tensor tensor) : tensor_(tensor) {}  // NOLINT: implicit, so that formulas read well
  Term(double number) : number_(number) {}  // NOLINT
  Term(int number) : number_(number) {}     // NOLINT
  bool is_tensor() const { return tensor_.defined(); }
  Tensor beside(Tensor other) const { return is_tensor() ? tensor_ : number_like(other, number_); }
  Tensor tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  double number_ = 0;
};

inline Tensor apply(ScalarOp op, Tensor x) { return x.builder().pointwise(op, {x}); }
inline Tensor apply(ScalarOp op, Tensor x, Term y) { return x.builder().pointwise(op, {x, y.beside(x)}); }

inline Tensor abs(Tensor x) { return apply(ScalarOp::Abs, x); }
inline Tensor floor(Tensor x) { return apply(ScalarOp::Floor, x); }
inline Tensor trunc(Tensor x) { return apply(ScalarOp::Trunc, x); }
inline Tensor round(Tensor x) { return apply(ScalarOp::Round, x); }
inline Tensor sqrt(Tensor x) { return apply(ScalarOp::Sqrt, x); }
inline Tensor rsqrt(Tensor x) { return apply(ScalarOp::Rsqrt, x); }
inline Tensor reciprocal(Tensor x) { return apply(ScalarOp::Reciprocal, x); }
// exp, 0 where the result would not be a normal number: for terms of a sum of which one is 1.
inline Tensor exp_normal(Tensor x) { return apply(ScalarOp::ExpNormal, x); }
inline Tensor exp(Tensor x) { return apply(ScalarOp::Exp, x); }
inline Tensor exp2(Tensor x) { return apply(ScalarOp::Exp2, x); }
inline Tensor expm1(Tensor x) { return apply(ScalarOp::Expm1, x); }
inline Tensor log(Tensor x) { return apply(ScalarOp::Log, x); }
inline Tensor log1p(Tensor x) { return apply(ScalarOp::Log1p, x); }
inline Tensor sin(Tensor x) { return apply(ScalarOp::Sin, x); }
inline Tensor cos(Tensor x) { return apply(ScalarOp::Cos, x); }
inline Tensor tanh(Tensor x) { return apply(ScalarOp::Tanh, x); }
inline Tensor sigmoid(Tensor x) { return apply(ScalarOp::Sigmoid, x); }
inline Tensor erf(Tensor x) { return apply(ScalarOp::Erf, x); }
inline Tensor erfc(Tensor x) { return apply(ScalarOp::Erfc, x); }
inline Tensor lgamma(Tensor x) { return apply(ScalarOp::Lgamma, x); }
inline Tensor digamma(Tensor x) { return apply(ScalarOp::Digamma, x); }
inline Tensor isnan(Tensor x) { return apply(ScalarOp::IsNan, x); }
inline Tensor isinf(Tensor x) { return apply(ScalarOp::IsInf, x); }
inline Tensor pow(Tensor x, Term y) { return apply(ScalarOp::Pow, x, y); }
inline Tensor maximum(Tensor x, Term y) { return apply(ScalarOp::Max, x, y); }  // NaN wins
inline Tensor minimum(Tensor x, Term y) { return apply(ScalarOp::Min, x, y); }  // NaN wins
inline Tensor square(Tensor x) { return x * x; }

inline Tensor eq(Tensor x, Term y) { return apply(ScalarOp::Eq, x, y); }
inline Tensor ne(Tensor x, Term y) { return apply(ScalarOp::Ne, x, y); }
inline Tensor operator<(Tensor x, Term y) { return apply(ScalarOp::Lt, x, y); }
inline Tensor operator<=(Tensor x, Term y) { return apply(ScalarOp::Le, x, y); }
inline Tensor operator>(Tensor x, Term y) { return apply(ScalarOp::Gt, x, y); }
inline Tensor operator>=(Tensor x, Term y) { return apply(ScalarOp::Ge, x, y); }

// Of Bool tensors.
inline Tensor operator&(Tensor x, Tensor y) { return apply(ScalarOp::BitAnd, x, y); }
inline Tensor operator|(Tensor x, Tensor y) { return apply(ScalarOp::BitOr, x, y); }
inline Tensor operator!(Tensor x) { return apply(ScalarOp::BitNot, x); }

// One of `a` and `b` must be a tensor.
inline Tensor where(Tensor condition, Term a, Term b) {
  const Tensor some = a.is_tensor() ? a.tensor() : b.tensor();
  return condition.builder().pointwise(ScalarOp::Where, {condition, a.beside(some), b.beside(some)});
}

}  // namespace toroid
