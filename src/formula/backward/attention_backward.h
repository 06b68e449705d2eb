// The gradient of scaled dot-product attention, from the log-sums that the forward pass keeps. With P the attention weights:
//
//   dV = P^T dO      dS = P (dO V^T - sum(dO * O))      dQ = scale dS K      dK = scale dS^T Q      dmask = dS
#pragma once

#include "formula/nn/attention.h"

namespace toroid::formula {

// Of [B, H, L, E], [B, H, S, E] and [B, H, S, Ev] in their dtypes, and of the scores, [B, H, L, S] in F32 (F64 of F64).
struct AttentionGradients {
  Tensor q, k, v, scores;
};

// `grad` and `out` are [batch…, L, Ev], the gradient of the result and the result; `log_sums` are those of attention_log_sums, [batch…, L],
// or more of them than queries.
AttentionGradients attention_backward(Tensor grad, const AttentionOperands& in, Tensor out, Tensor log_sums);

}  // namespace toroid::formula
