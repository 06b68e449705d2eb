// What the normalisations and their gradients share: which dims they reduce, and how vectors over channels broadcast.
#pragma once

#include "passes/decompose/decompose.h"

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

inline Tensor inverse_deviation(Tensor variance, double eps) {
  return variance.builder().unary(ScalarOp::Rsqrt, variance + eps);
}

// `x` in the dtype that the model records for result `index`.
inline Tensor as_recorded(Decomposer& d, size_t index, Tensor x) {
  return index < d.recorded.size() ? d.b.cast(x, d.recorded[index].dtype) : x;
}

}  // namespace toroid
