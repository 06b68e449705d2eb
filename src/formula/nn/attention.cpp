// Before the Attention operation, grouped keys and values repeat to the number of query heads, other ranks are brought to four dims, and a
// Bool mask becomes what is added to the scores (0 where true, -inf where false).
#include "formula/nn/attention.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "formula/nn/softmax.h"

namespace toroid::formula {
namespace {

// What the scores are multiplied by. A head size that is known only when the program runs gives no number here: the query itself is then
// divided by its root.
void set_scale(AttentionOperands& in, const std::optional<double>& scale) {
  if (scale) {
    in.scale = *scale;
    return;
  }
  const sym::Expr width = in.q.size(-1);
  if (width.is_const()) {
    in.scale = 1.0 / std::sqrt(static_cast<double>(width.value()));
    return;
  }
  Builder& b = in.q.builder();
  const Tensor q = wide(in.q);
  in.q = b.cast(q / b.unary(ScalarOp::Sqrt, b.scalar(q.dtype(), width)), in.q.dtype());
}

// Each key and value head serves a run of query heads.
Tensor repeat_heads(Tensor x, Tensor q) {
  Builder& b = x.builder();
  const sym::Expr heads = q.size(-3), own = x.size(-3);
  if (sym::known_eq(heads, own)) return x;
  Sizes grouped = x.sizes();
  grouped.insert(grouped.end() - 2, sym::floor_div(heads, own));
  Sizes repeated = x.sizes();
  repeated[repeated.size() - 3] = heads;
  return b.reshape(b.expand(b.unsqueeze(x, -3), grouped), repeated);
}

// What is added to the scores.
Tensor additive(Tensor mask, DType dtype) {
  Builder& b = mask.builder();
  if (mask.dtype() != DType::Bool) return b.cast(mask, dtype);
  return b.where(mask, b.scalar(dtype, 0.0), b.scalar(dtype, -std::numeric_limits<double>::infinity()));
}

// What x repeats, where it has its heads in this dim and is made of fewer by giving each to as many others: [B, K, 1, S, E] expanded and
// reshaped; or, before heads and rows change places, [B, S, K, 1, E].
Tensor before_repeat(Tensor x, size_t heads = 1) {
  Builder& b = x.builder();
  const Graph& graph = b.graph();
  const Node& last = graph.producer(x.id());
  const auto* permuted = std::get_if<Permute>(&last.op);
  if (heads == 1 && permuted != nullptr && permuted->dims == std::vector<int>{0, 2, 1, 3}) {
    const Tensor before = before_repeat(b.wrap(last.inputs[0]), 2);
    return before.defined() ? b.permute(before, {0, 2, 1, 3}) : before;
  }
  if (!std::holds_alternative<Reshape>(last.op)) return {};
  const Node& expanded = graph.producer(last.inputs[0]);
  if (!std::holds_alternative<Expand>(expanded.op)) return {};
  const Sizes &from = graph.type(expanded.inputs[0]).sizes, &to = graph.type(expanded.outputs[0]).sizes;
  if (x.rank() != 4 || from.size() != 5 || to.size() != 5 || !from[heads + 1].is_const(1)) return {};
  Sizes own, repeated;
  for (size_t d = 0; d < 5; ++d) {
    if (d == heads + 1) continue;
    if (!sym::known_eq(from[d], to[d])) return {};
    own.push_back(from[d]);
    repeated.push_back(d == heads ? to[d] * to[d + 1] : to[d]);
  }
  for (size_t d = 0; d < 4; ++d) {
    if (!sym::known_eq(x.size(static_cast<int>(d)), repeated[d])) return {};
  }
  return b.reshape(b.wrap(expanded.inputs[0]), own);
}

}  // namespace

Tensor to_four_dims(Tensor x, const Sizes& batch) {
  Sizes sizes = batch;
  sizes.append(x.sizes().last(2));
  x = x.builder().expand(x, sizes);
  if (batch.size() == 2) return x;
  sym::Expr outer = 1;
  for (size_t i = 0; i + 1 < batch.size(); ++i) outer = outer * batch[i];
  return x.builder().reshape(x, {outer, batch.empty() ? sym::Expr(1) : batch.back(), x.size(-2), x.size(-1)});
}

Tensor from_four_dims(Tensor x, Sizes batch) {
  batch.append(x.sizes().last(2));
  return x.builder().reshape(x, batch);
}

AttentionOperands attention_operands(Tensor q, Tensor k, Tensor v, Tensor given, const AttentionOptions& options) {
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2) {
    throw Error(ErrorKind::InvalidModel, "attention needs tensors of rank 2 or more");
  }
  Builder& b = q.builder();
  AttentionOperands in{.q = q, .k = k, .v = v, .mask = {}, .causal = options.causal, .scale = 1, .batch = {}};
  set_scale(in, options.scale);
  if (options.shares_heads) {
    in.k = repeat_heads(in.k, in.q);
    in.v = repeat_heads(in.v, in.q);
  }
  auto batch_of = [](Tensor x) { return x.sizes().without_last(2); };
  in.batch = b.broadcast(b.broadcast(batch_of(in.q), batch_of(in.k)), batch_of(in.v));
  if (given.defined()) {
    Tensor mask = options.adds_truth ? b.cast(given, in.q.dtype()) : additive(given, in.q.dtype());
    const sym::Expr rows = in.q.size(-2), columns = in.k.size(-2);
    Sizes sizes = in.batch;
    sizes.insert(sizes.end(), {rows, columns});
    in.mask = to_four_dims(b.expand(mask, sizes), in.batch);
  }
  in.q = to_four_dims(in.q, in.batch);
  in.k = to_four_dims(in.k, in.batch);
  in.v = to_four_dims(in.v, in.batch);
  return in;
}

AttentionOperands with_shared_heads(AttentionOperands in) {
  const Tensor k = before_repeat(in.k), v = before_repeat(in.v);
  if (k.defined() && v.defined() && sym::known_eq(k.size(1), v.size(1))) in.k = k, in.v = v;
  return in;
}

Tensor attend(const AttentionOperands& operands) {
  const AttentionOperands in = with_shared_heads(operands);  // then nothing is repeated in memory
  Tensor y = in.q.builder().attention(in.q, in.k, in.v, in.mask, in.causal, in.scale);
  return from_four_dims(y, in.batch);
}

Tensor attend_in_parts(AttentionOperands in) {
  Builder& b = in.q.builder();
  in.k = repeat_heads(in.k, in.q);
  in.v = repeat_heads(in.v, in.q);
  return b.matmul(b.cast(safe_softmax(attention_scores(in), -1), in.v.dtype()), in.v);
}

Tensor attention_scores(const AttentionOperands& in) {
  Builder& b = in.q.builder();
  Tensor scores = b.matmul(wide(in.q), b.transpose(wide(in.k), -1, -2)) * in.scale;
  if (in.mask.defined()) scores = scores + wide(in.mask);
  if (!in.causal) return scores;
  const Sizes sizes = scores.sizes();
  Tensor visible = b.binary(ScalarOp::Le, b.iota(sizes, 3), b.iota(sizes, 2));
  return b.where(visible, scores, b.scalar(scores.dtype(), -std::numeric_limits<double>::infinity()));
}

Tensor attention_log_sums(const AttentionOperands& in) {
  Builder& b = in.q.builder();
  Tensor scores = attention_scores(in);
  Tensor largest = b.keep(b.amax(scores, {-1}), {-1});
  Tensor sum = b.sum(b.unary(ScalarOp::ExpNormal, scores - largest), {-1});
  return b.unary(ScalarOp::Log, sum) + b.squeeze(largest, -1);
}

Tensor scaled_dot_product_attention(Tensor q, Tensor k, Tensor v, Tensor mask, const AttentionOptions& options) {
  return attend(attention_operands(q, k, v, mask, options));
}

}  // namespace toroid::formula
