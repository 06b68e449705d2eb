// Vectors along one dim, and channels, dim 1 of [N, C, …]: vectors over them, and groups of them.
#pragma once

#include "graph/builder.h"

namespace toroid {

// A vector over dim `dim` of x, so that it broadcasts against x.
inline Tensor along_dim_of(Tensor x, int64_t dim, Tensor vector) {
  Builder& b = x.builder();
  Sizes sizes(static_cast<size_t>(x.rank()), 1);
  sizes[static_cast<size_t>(b.wrap_dim(dim, x.rank()))] = vector.numel();
  return b.reshape(vector, sizes);
}

// A vector over channels, [C], so that it broadcasts against [N, C, …] of this rank; undefined stays undefined.
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

}  // namespace toroid
