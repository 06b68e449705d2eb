// Mean and variance, which normalisations take off and divide by.
#pragma once

#include "formula/basics/over_dims.h"
#include "formula/basics/totals.h"

namespace toroid {

// Of x over `dims`, which are kept with size 1: in x's dtype, or in F64 where there are few of them for the elements that are read.
struct Moments {
  Tensor mean, variance;  // the variance divides by `count`
  sym::Expr count;        // elements behind each
};
inline Moments moments(Tensor x, const Dims& dims, bool in_f64 = false) {
  Builder& b = x.builder();
  const sym::Expr count = count_along(x, dims);
  const std::vector<Tensor> welford = in_f64 ? reduce_in_f64(ReduceOp::MeanM2, x, dims) : b.reduce(ReduceOp::MeanM2, x, dims);
  const Tensor variance = b.binary(ScalarOp::Div, welford[1], Scalar(count));
  return {b.keep(welford[0], dims), b.keep(variance, dims), count};
}

// 1/sqrt(variance + eps)
inline Tensor inverse_deviation(Tensor variance, double eps) { return variance.builder().unary(ScalarOp::Rsqrt, variance + eps); }

}  // namespace toroid
