#include "formula/nn/softmax.h"

#include <limits>

#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"

namespace toroid::formula {

Tensor softmax(Tensor x, int64_t dim) {
  Tensor e = exp_normal(x - reduce_keeping(ReduceOp::Max, x, {dim}));
  // Of a sum between 1 and the row's length, so it neither overflows nor underflows.
  return e * reciprocal(reduce_keeping(ReduceOp::Sum, e, {dim}));
}

Tensor log_softmax(Tensor x, int64_t dim) {
  Tensor shifted = x - reduce_keeping(ReduceOp::Max, x, {dim});
  return shifted - log(reduce_keeping(ReduceOp::Sum, exp_normal(shifted), {dim}));
}

Tensor safe_softmax(Tensor x, int64_t dim) {
  Tensor is_masked = eq(reduce_keeping(ReduceOp::Max, x, {dim}), -kInfinity);
  return where(is_masked, 0, softmax(x, dim));
}

// A maximum that is infinite is taken off as zero: infinity minus infinity would be NaN.
Tensor logsumexp(Tensor x, const Dims& dims) {
  Tensor largest = reduce_keeping(ReduceOp::Max, x, dims);
  Tensor shift = where(eq(abs(largest), kInfinity), 0, largest);
  Tensor sum = reduce_keeping(ReduceOp::Sum, exp_normal(x - shift), dims);
  return log(sum) + shift;
}

}  // namespace toroid::formula
