// Attention that a model writes out as products and a softmax becomes one operation, for targets that have a kernel for it.
//
//   s = matmul(q, transpose(k)) * 0.125                   =>   y = attention(q, k, v, mask, causal=false, scale=0.125)
//   y = matmul(softmax(s + mask, -1), v)
//
// Between the products may be casts, factors and divisors that are numbers, tensors that are added, and `where` with a number that hides a
// score. A row that sees nothing is NaN in a softmax and zeros in the operation: where a mask may hide a whole row, the result is NaN there
// again. The scores are not rounded to 16 bits any more.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace toroid {

// Needs core level. Leaves the nodes that nobody uses any more. `has_kernel`: of q and v, [B, H, L, E].
bool merge_attention(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel);

}  // namespace toroid
