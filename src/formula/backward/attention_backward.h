// The gradient of scaled dot-product attention, from the log-sums that the forward pass keeps. With P the attention weights:
//
//   dV = P^T dO      dS = P (dO V^T - sum(dO * O))      dQ = scale dS K      dK = scale dS^T Q      dmask = dS
//
// With dropout, where M is 1/(1-p) for weights that were kept and 0 for others, P M stands for P in dV and (dO V^T) M for dO V^T.
#pragma once

#include "formula/nn/attention.h"

namespace toroid::formula {

// Of [B, H, L, E], [B, H, S, E] and [B, H, S, Ev] in their dtypes, and of the scores, [B, H, L, S] in F32 (F64 of F64).
struct AttentionGradients {
  Tensor q, k, v, scores;
};

// `grad` and `out` are [batch…, L, Ev], the gradient of the result and the result; `log_sums` are those of attention_log_sums, [batch…, L],
// or more of them than queries. `kept` is Bool [B, H, L, S], or undefined without dropout.
AttentionGradients attention_backward(Tensor grad, const AttentionOperands& in, Tensor out, Tensor log_sums, Tensor kept = {},
                                      double dropout = 0);

}  // namespace toroid::formula
