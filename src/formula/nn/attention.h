// Scaled dot-product attention (Vaswani et al., 2017), softmax(scale q k^T + mask) v, as one Attention operation.
//
// Queries are [batch…, L, E], keys [batch…, S, E] and values [batch…, S, Ev], of one floating dtype; batch dims, the heads among them,
// broadcast. The result is [batch…, L, Ev] in that dtype. Scores are computed in F32 (F64 of F64). A row that may look at nothing yields
// zeros.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace toroid::formula {

struct AttentionOptions {
  bool causal = false;          // query i sees keys up to i
  std::optional<double> scale;  // absent: 1/sqrt(E)
  bool shares_heads = false;    // k and v have fewer heads, in dim -3: each serves a run of query heads (Ainslie et al., 2023)
  bool adds_truth = false;      // a Bool mask adds 1 where it is true, as other numbers would
};

// `mask` broadcasts to [batch…, L, S] and may be undefined: what is added to the scores, or Bool, true where a query may look. Throws
// Error{InvalidModel} for ranks below 2.
Tensor scaled_dot_product_attention(Tensor q, Tensor k, Tensor v, Tensor mask, const AttentionOptions& options);

// ---- in parts ---------------------------------------------------------------------------------------------------------

// What attention works on.
struct AttentionOperands {
  Tensor q, k, v, mask;  // [B, H, L, E], [B, H, S, E], [B, H, S, Ev], undefined or [B, H, L, S] in q's dtype: added
  bool causal = false;
  double scale = 1;
  Sizes batch;  // the batch dims of the caller, which [B, H] stand for
};
AttentionOperands attention_operands(Tensor q, Tensor k, Tensor v, Tensor mask, const AttentionOptions& options);

// [batch…, m, n] -> [B, H, m, n] for the broadcast batch dims, and back.
Tensor to_four_dims(Tensor x, const Sizes& batch);
Tensor from_four_dims(Tensor x, Sizes batch);

// Keys and values that were repeated for heads are taken as they were before, where both were: a kernel lets heads share them.
AttentionOperands with_shared_heads(AttentionOperands in);

// The result, [batch…, L, Ev].
Tensor attend(const AttentionOperands& in);

// The same by products and a softmax, for targets without a kernel for it.
Tensor attend_in_parts(AttentionOperands in);

// The scores with what is added to them, [B, H, L, S] in F32.
Tensor attention_scores(const AttentionOperands& in);

// log(sum(exp(scores))) per query, [B, H, L] in F32: what the flash kernels keep for the backward pass.
Tensor attention_log_sums(const AttentionOperands& in);

}  // namespace toroid::formula
