// The dims a formula works over, and the shape of its result.
#pragma once

#include "graph/builder.h"

namespace toroid {

struct OverDims {
  Dims dims;  // wrapped and sorted
  bool keepdim = false;
  Sizes sizes;  // of the result

  // `result`, of a reduction over `dims`, in the sizes of the operator's result.
  Tensor shaped(Tensor result) const { return result.builder().reshape(result, sizes); }
};

// `dims` may be negative, count from the end then, and stand in any order; empty means all dims.
OverDims over_dims(Tensor x, Dims dims, bool keepdim);

// All dims of a tensor of this rank but `kept`, which is wrapped.
Dims all_but(int64_t rank, int64_t kept);
// The last `count` dims of x.
Dims trailing(Tensor x, size_t count);
// -count, …, -1
Dims last_dims(size_t count);

// How many dims x has before its last `count`. Throws Error{InvalidModel} when it has fewer.
size_t dims_before(Tensor x, size_t count);

// The number of elements of x along `dims`.
sym::Expr count_along(Tensor x, const Dims& dims);

// For operators along one dim: a tensor of rank 0 counts as one of a single element, and its results have rank 0 again.
struct AlongDim {
  Tensor x;     // of rank 1 or more
  int64_t dim;  // wrapped
  bool was_scalar;

  std::vector<Tensor> results(std::vector<Tensor> tensors) const;
};
AlongDim along_dim(Tensor x, int64_t dim);

// f of one argument over dims of it, each reduced with the dims kept, so that they broadcast against x:
// softmax(x) = exp(x - m) / sum(exp(x - m)).
Tensor reduce_keeping(ReduceOp op, Tensor x, const Dims& dims);

}  // namespace toroid
