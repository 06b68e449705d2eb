// Dropout of attention's weights in the operators whose gradient is an operator of its own: _scaled_dot_product_flash_attention and alike.
//
// The forward operator draws 128 bits, the state, and gives them as its `rng_state` or `philox_seed` and `philox_offset`. Element i of the
// weights, [B, H, L, S] in row-major order, is kept as word 0 of the Philox block tells whose key is the state's first half and whose
// counter is i and the second half. So the gradient draws the same again, and no mask is kept.
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

// Bool [B, H, L, S]: false with probability p.
Tensor kept_weights(const DropoutState& state, const formula::AttentionOperands& in, double p);
// The result, [batch…, L, Ev]. A row that may look at nothing gives zeros.
Tensor attend_with_dropout(const formula::AttentionOperands& in, const DropoutState& state, double p);

}  // namespace toroid
