// Attention whose scores a model computes itself, or whose mask it computes from positions, becomes one operation with these expressions
// inside, for targets whose kernel takes such (FlexAttention).
//
//   m = le(iota(2) - iota(3), 1023)                       =>   p = attention.product(q, k)
//   y = attention(q, k, v, where(m, 0, -inf))                  s = p * 0.125 + where(m, 0, -inf)
//                                                              y = attention.of_scores(q, k, v, s)
//
//   s = matmul(q, transpose(k)) * 0.125                   =>   p = attention.product(q, k)
//   y = matmul(softmax(tanh(s / 20) * 20, -1), v)              s = tanh(p * 0.125 / 20) * 20
//                                                              y = attention.of_scores(q, k, v, s)
//
// attention.product is in F32, [B, H, L, S], as are the scores; neither is ever in memory: the kernel computes what lies between them, and
// the masks that are made of positions and of smaller tensors, for each score. attention.of_scores(q, k, v, s) is softmax(s) v. Its
// attribute says whether a row whose scores are all -inf is NaN, as after a softmax, or zeros, as of an attention.
//
// Scores in 16 bits are in float32 then: none is rounded. Scores that are only scaled, hidden and added to are left to merge_attention.h
// where what is added to them is a tensor in memory.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace toroid {

// Needs core level. Leaves the nodes that nobody uses any more. `has_kernel`: of q and v, [B, H, L, E].
bool write_scores(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel);

}  // namespace toroid
