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
//
// Weights may be dropped as passes/decompose/nn/attention_dropout.h has it, by what Philox draws at the weights' places: then the gradient
// draws again, and so does the forward pass, which is one operation, too:
//
//   dq, dk, dv, statistics = attention.gradient(q, k, v, out, grad[, mask], key, call) (causal, scale, factor, limit)
//   out = attention.dropped(q, k, v[, mask], key, call) (causal, scale, factor, limit)
//
// A weight stays, times the factor, where its 16 bits of the block with that key and call are below the limit. Key and call have one
// element.
#pragma once

#include <functional>
#include <string_view>

#include "graph/graph.h"

namespace toroid {

inline constexpr std::string_view kAttentionGradient = "attention.gradient", kDroppedAttention = "attention.dropped";

// Of the operands of one of the two: is a mask behind the first so many, and are key and call?
constexpr bool has_mask(size_t operands, size_t first) { return operands == first + 1 || operands == first + 3; }
constexpr bool has_dropout(size_t operands, size_t first) { return operands >= first + 2; }
inline constexpr size_t kDroppedOperands = 3, kGradientOperands = 5;

// Leaves the nodes that nobody uses any more. `has_kernel`: of q and v.
bool merge_attention_gradients(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel);
// The same of forward passes that drop weights, behind the gradients, which read their scores.
bool merge_dropped_attention(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel);

}  // namespace toroid
