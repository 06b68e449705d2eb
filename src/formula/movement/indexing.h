// Reading elements by index.
//
// x has any dtype, which the result has; indices are integers. Unless said otherwise they are in bounds, and x has any rank.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// x[indices], as advanced_index (basics/index_tensors.h) places the dims. Indices may be negative and count from the end.
Tensor index(Tensor x, const std::vector<Tensor>& indices);

// … where `mask` is true, which broadcasts to the result, and `fill` elsewhere; there the indices may be anything.
Tensor masked_index(Tensor x, Tensor mask, const std::vector<Tensor>& indices, const Scalar& fill);

// The slices of x along `dim` that `index`, a vector or a number, names; of x of rank 0 that is x.
Tensor index_select(Tensor x, int64_t dim, Tensor index);

// result[.., i, ..] = x[.., index[.., i, ..], ..] along `dim`, with the index's sizes.
Tensor gather(Tensor x, int64_t dim, Tensor index);
// … but the other dims broadcast, and indices may be negative.
Tensor take_along_dim(Tensor x, int64_t dim, Tensor index);

// Elements of x as if it were a vector. Indices may be negative.
Tensor take(Tensor x, Tensor index);

// Bool, with the sizes of `elements`: whether each is among `candidates`, of any shape.
Tensor is_in(Tensor elements, Tensor candidates);

}  // namespace toroid::formula
