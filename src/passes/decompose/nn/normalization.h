// What the normalisations and their gradients share: which dims they reduce, and how vectors over channels broadcast.
#pragma once

#include "formula/basics/totals.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// All dims of a tensor of this rank but one.
inline Dims all_but(int64_t rank, int64_t kept) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != kept) dims.push_back(d);
  }
  return dims;
}

// The last `count` dims of x.
inline Dims trailing(Tensor x, size_t count) {
  Dims dims;
  for (size_t i = 0; i < count; ++i) dims.push_back(x.rank() - static_cast<int64_t>(count - i));
  return dims;
}

// A vector over channels so that it broadcasts against [N, C, …]; undefined stays undefined.
inline Tensor per_channel(Tensor vector, int64_t rank) {
  if (!vector.defined()) return vector;
  Sizes sizes = {vector.size(0)};
  for (int64_t d = 2; d < rank; ++d) sizes.push_back(1);
  return vector.builder().reshape(vector, sizes);
}

// [N, C, …] as [N, groups, C/groups, …].
inline Tensor split_channels(Tensor x, sym::Expr groups) {
  Sizes sizes = {x.size(0), groups, sym::floor_div(x.size(1), groups)};
  sizes.insert(sizes.end(), x.sizes().begin() + 2, x.sizes().end());
  return x.builder().reshape(x, sizes);
}

inline Tensor inverse_deviation(Tensor variance, double eps) { return variance.builder().unary(ScalarOp::Rsqrt, variance + eps); }

// Of x over `dims`, which are kept with size 1: in x's dtype, or in F64 where there are few of them for the elements that are read.
struct Moments {
  Tensor mean, variance;
  sym::Expr count;  // elements behind each
};
inline Moments moments(Tensor x, const Dims& dims, bool in_f64 = false) {
  Builder& b = x.builder();
  sym::Expr count = 1;
  for (int64_t dim : dims) count = count * x.size(dim);
  const std::vector<Tensor> welford = in_f64 ? reduce_in_f64(ReduceOp::MeanM2, x, dims) : b.reduce(ReduceOp::MeanM2, x, dims);
  const Tensor variance = b.binary(ScalarOp::Div, welford[1], Scalar(count));
  return {b.keep(welford[0], dims), b.keep(variance, dims), count};
}

// `x` in the dtype that the model records for result `index`.
inline Tensor as_recorded(Decomposer& d, size_t index, Tensor x) {
  return index < d.recorded.size() ? d.b.cast(x, d.recorded[index].dtype) : x;
}

}  // namespace toroid
