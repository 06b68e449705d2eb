#include "formula/backward/attention_backward.h"

#include "formula/basics/precision.h"

namespace toroid::formula {

AttentionGradients attention_backward(Tensor grad_out, const AttentionOperands& in, Tensor result, Tensor sums, Tensor kept,
                                      double dropout) {
  Builder& b = in.q.builder();
  Tensor grad = to_four_dims(wide(grad_out), in.batch), out = to_four_dims(wide(result), in.batch);
  Tensor q = wide(in.q), k = wide(in.k), v = wide(in.v), log_sums = wide(sums);
  auto transposed = [&](Tensor x) { return b.transpose(x, -1, -2); };
  log_sums = b.slice(log_sums, -1, 0, q.size(-2));
  log_sums = b.reshape(log_sums, {q.size(0), q.size(1), q.size(2), 1});
  // Factors of the products that give gradients are rounded to the operands' dtype, as in FlashAttention.
  auto rounded = [&](Tensor x) { return wide(b.cast(x, in.q.dtype())); };
  Tensor weights = b.unary(ScalarOp::ExpNormal, attention_scores(in) - log_sums);
  Tensor row = b.keep(b.sum(grad * out, {-1}), {-1});
  auto dropped = [&](Tensor x) { return kept.defined() ? b.where(kept, x * (1 / (1 - dropout)), b.scalar(x.dtype(), 0.0)) : x; };
  Tensor of_scores = weights * (dropped(b.matmul(grad, transposed(v))) - row), scaled = rounded(of_scores * in.scale);
  return {b.cast(b.matmul(scaled, k), in.q.dtype()), b.cast(b.matmul(transposed(scaled), q), in.k.dtype()),
          b.cast(b.matmul(transposed(rounded(dropped(weights))), grad), in.v.dtype()), of_scores};
}

}  // namespace toroid::formula
