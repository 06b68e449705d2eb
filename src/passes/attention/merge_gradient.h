// The gradient of attention as one operation, for targets that have a kernel for it.
//
// formula/backward/attention_backward.h writes it as products and what is between them, whose scores have a row for each query and a column
// for each key. In their place comes a Library node that keeps no scores:
//
//   dq, dk, dv, statistics = attention.gradient(q, k, v, out, grad[, mask]) (causal, scale)
//
// of 16-bit floats [B, H, L, E]. A mask, [B, H, L, S], is what is added to the scores, or Bool, true where a query may look: one of 0 and
// -inf that was made of Bools is those. Where its own gradient is wanted, all stays products. `statistics`, F32 [B, H, L, 3], is the
// kernel's own. The logarithms of the forward pass's sums, which the formula reads, must be those of the same scores; nobody reads them
// then. Where all that is done with the three is to stack them beside each other, [B, L, 3, H, E], as what they are the gradient of lay,
// they are one result:
//
//   stacked, statistics = attention.gradient(q, k, v, out, grad) (causal, scale)
#pragma once

#include <functional>
#include <string_view>

#include "graph/graph.h"

namespace toroid {

inline constexpr std::string_view kAttentionGradient = "attention.gradient";

// Leaves the nodes that nobody uses any more. `has_kernel`: of q and v.
bool merge_attention_gradients(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel);

}  // namespace toroid
