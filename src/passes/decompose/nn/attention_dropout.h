// Dropout of attention's weights in the operators whose gradient is an operator of its own: _scaled_dot_product_flash_attention and alike.
//
// The forward operator draws 128 bits, the state, and gives them as its `rng_state` or `philox_seed` and `philox_offset`. The gradient
// draws the same again, so no mask is kept. A Philox block, whose key is the state's first half, decides about eight weights, 16 bits for
// each, which a thread of a GPU's kernels has together: that of query l and key s is kept where
//
//   the block whose counter is the place of weight (l & ~8, s & ~9) in [B, H, L, S], and the second half of the state,
//   in its word 2 (l & 8 ? 1 : 0) + (s & 8 ? 1 : 0), of that in the upper half of s & 1, else in the lower one,
//
// has a number below 2^16 (1 - p), rounded to an integer from 1 on.
//
// PyTorch's own kernels give a state of theirs, which has another meaning. The gradient is therefore compiled where its state comes from
// the program itself, or under the name toroid::attention_backward, which says that it comes from another program of toroid's.
#pragma once

#include "formula/nn/attention.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

struct DropoutState {
  Tensor key, call;  // I64, rank 0
};

DropoutState drawn_dropout_state(Decomposer& d);
// U64 [2]: what `rng_state` is.
Tensor both_parts(const DropoutState& state);
// The state that the gradient is given. Throws Error{Unsupported} where it is not known to be toroid's.
DropoutState dropout_state_of(const Args& a);

// Below which 16 bits keep a weight; p is less than 1.
int64_t kept_limit(double p);
// Bool [B, H, L, S]: false with probability p, to 2^-17.
Tensor kept_weights(const DropoutState& state, const formula::AttentionOperands& in, double p);
// The result, [batch…, L, Ev]. A row that may look at nothing gives zeros.
Tensor attend_with_dropout(const formula::AttentionOperands& in, const DropoutState& state, double p);

}  // namespace toroid
