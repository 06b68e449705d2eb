// The dims an operator reduces over, and the shape of its result: the arguments `dim` and `keepdim` in all their
// spellings.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

struct OverDims {
  Dims dims;  // wrapped and sorted
  bool keepdim = false;
  Sizes sizes;  // of the result

  // `result`, of a reduction over `dims`, in the sizes of the operator's result.
  Tensor shaped(Tensor result) const { return result.builder().reshape(result, sizes); }
};

// `dim` may be an int, a list or None, and may be missing as `keepdim` may; an empty list means all dims.
OverDims over_dims(const Args& a, Tensor x);
OverDims over_dims(Tensor x, Dims dims, bool keepdim);

// Whether the operator's overload has this argument at all.
bool has_parameter(const Args& a, std::string_view name);

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
