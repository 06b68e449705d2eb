// scaled_dot_product_attention and its backend-specific spellings become one Attention operation over [B, H, L, E].
//
// Before it: grouped keys and values repeat to the number of query heads, other ranks are brought to four dims, and a
// Bool mask becomes what is added to the scores (0 where true, -inf where false). A row that may look at nothing yields
// zeros.
#include <cmath>
#include <limits>

#include "passes/decompose/decompose.h"
#include "passes/decompose/precision.h"
#include "support/error.h"

namespace toroid {
namespace {

struct AttentionInputs {
  Tensor q, k, v, mask;  // [B, H, L, E], [B, H, S, E], [B, H, S, Ev], undefined or [B, H, L, S] in q's dtype
  bool causal = false;
  double scale = 1;
  Sizes batch;  // the batch dims of the caller, which [B, H] stand for
};

double scale_of(Tensor q, const Args& a) {
  if (a.has("scale")) return a.number("scale");
  const sym::Expr width = q.size(-1);
  if (!width.is_const()) {
    throw Error(ErrorKind::Unsupported, "attention over a symbolic head size needs an explicit scale");
  }
  return 1.0 / std::sqrt(static_cast<double>(width.value()));
}

void refuse_dropout(const Args& a) {
  if (a.number("dropout_p") == 0) return;
  throw Error(ErrorKind::Unsupported, fmt::format("{} with dropout is not supported: on CPUs PyTorch itself does not drop in it", a.schema().name))
      .help("export the model in evaluation mode (model.eval()), or with aten::scaled_dot_product_attention");
}

// enable_gqa: each key and value head serves a run of query heads.
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

// [batch…, m, n] -> [B, H, m, n] for the broadcast batch dims.
Tensor to_four_dims(Tensor x, const Sizes& batch) {
  Sizes sizes = batch;
  sizes.insert(sizes.end(), x.sizes().end() - 2, x.sizes().end());
  x = x.builder().expand(x, sizes);
  if (batch.size() == 2) return x;
  sym::Expr outer = 1;
  for (size_t i = 0; i + 1 < batch.size(); ++i) outer = outer * batch[i];
  return x.builder().reshape(x, {outer, batch.empty() ? sym::Expr(1) : batch.back(), x.size(-2), x.size(-1)});
}

Tensor from_four_dims(Tensor x, Sizes batch) {
  batch.insert(batch.end(), x.sizes().end() - 2, x.sizes().end());
  return x.builder().reshape(x, batch);
}

// What is added to the scores.
Tensor additive(Tensor mask, DType dtype) {
  Builder& b = mask.builder();
  if (mask.dtype() != DType::Bool) return b.cast(mask, dtype);
  return b.where(mask, b.scalar(dtype, 0.0), b.scalar(dtype, -std::numeric_limits<double>::infinity()));
}

AttentionInputs attention_inputs(const Args& a, std::string_view mask_name) {
  AttentionInputs in;
  in.q = a.tensor("query");
  in.k = a.tensor("key");
  in.v = a.tensor("value");
  if (in.q.rank() < 2 || in.k.rank() < 2 || in.v.rank() < 2) {
    throw Error(ErrorKind::InvalidModel, "attention needs tensors of rank 2 or more");
  }
  Builder& b = in.q.builder();
  in.causal = a.flag("is_causal");
  in.scale = scale_of(in.q, a);
  if (a.has("enable_gqa") && a.flag("enable_gqa")) {
    in.k = repeat_heads(in.k, in.q);
    in.v = repeat_heads(in.v, in.q);
  }
  auto batch_of = [](Tensor x) { return Sizes(x.sizes().begin(), x.sizes().end() - 2); };
  in.batch = b.broadcast(b.broadcast(batch_of(in.q), batch_of(in.k)), batch_of(in.v));
  if (a.has(mask_name)) {
    Tensor mask = additive(a.tensor(mask_name), in.q.dtype());
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

Tensor attend(const AttentionInputs& in) {
  Tensor y = in.q.builder().attention(in.q, in.k, in.v, in.mask, in.causal, in.scale);
  return from_four_dims(y, in.batch);
}

// [B, H, L, S] in F32.
Tensor scores_of(const AttentionInputs& in) {
  Builder& b = in.q.builder();
  Tensor scores = b.matmul(wide(in.q), b.transpose(wide(in.k), -1, -2)) * in.scale;
  if (in.mask.defined()) scores = scores + wide(in.mask);
  if (!in.causal) return scores;
  const Sizes sizes = scores.sizes();
  Tensor visible = b.binary(ScalarOp::Le, b.iota(sizes, 3), b.iota(sizes, 2));
  return b.where(visible, scores, b.scalar(scores.dtype(), -std::numeric_limits<double>::infinity()));
}

// log(sum(exp(scores))) per query, [B, H, L] in F32: what the flash kernels keep for the backward pass.
Tensor log_sum_exp(const AttentionInputs& in) {
  Builder& b = in.q.builder();
  Tensor scores = scores_of(in);
  Tensor largest = b.keep(b.amax(scores, {-1}), {-1});
  Tensor sum = b.sum(b.unary(ScalarOp::Exp, scores - largest), {-1});
  return b.unary(ScalarOp::Log, sum) + b.squeeze(largest, -1);
}

// {result, weights} with weights dropped at random.
std::vector<Tensor> attend_with_dropout(Decomposer& d, const AttentionInputs& in, double p) {
  // A row that may look at nothing gives zeros.
  const Tensor weights = d.b.cast(d.call1("aten::_safe_softmax", {scores_of(in), -1}), in.v.dtype());
  const Tensor kept = d.call1("aten::dropout", {weights, p, true});
  return {from_four_dims(d.b.cast(d.b.matmul(wide(kept), wide(in.v)), in.v.dtype()), in.batch), from_four_dims(kept, in.batch)};
}

std::vector<Tensor> scaled_dot_product_attention(Decomposer& d, const Args& a) {
  const AttentionInputs in = attention_inputs(a, "attn_mask");
  if (a.number("dropout_p") != 0) return {attend_with_dropout(d, in, a.number("dropout_p"))[0]};
  return {attend(in)};
}

// The form that keeps the weights; `dropout_mask` says which stay, instead of chance.
std::vector<Tensor> attention_math(Decomposer& d, const Args& a) {
  const AttentionInputs in = attention_inputs(a, "attn_mask");
  const double p = a.number("dropout_p");
  if (!a.has("dropout_mask")) return attend_with_dropout(d, in, p);
  const Tensor all = d.b.cast(d.call1("aten::_safe_softmax", {scores_of(in), -1}), in.v.dtype());
  Sizes sizes = in.batch;
  sizes.insert(sizes.end(), all.sizes().end() - 2, all.sizes().end());
  const Tensor keep = to_four_dims(d.b.expand(d.b.cast(a.tensor("dropout_mask"), DType::Bool), sizes), in.batch);
  const Tensor weights = d.b.where(keep, all, d.b.full(all.sizes(), all.dtype(), 0.0));
  const Tensor y = d.b.matmul(wide(weights), wide(in.v) * (1 / (1 - p)));
  return {from_four_dims(d.b.cast(y, in.v.dtype()), in.batch), from_four_dims(weights, in.batch)};
}

std::vector<Tensor> flash_attention_for_cpu(Decomposer&, const Args& a) {
  refuse_dropout(a);
  const AttentionInputs in = attention_inputs(a, "attn_mask");
  return {attend(in), log_sum_exp(in)};
}

// With P the attention weights, recomputed from the kept log-sums:
//   dV = P^T dO      dS = P (dO V^T - sum(dO * O))      dQ = scale dS K      dK = scale dS^T Q
std::vector<Tensor> flash_attention_for_cpu_backward(Decomposer& d, const Args& a) {
  refuse_dropout(a);
  Builder& b = d.b;
  const AttentionInputs in = attention_inputs(a, "attn_mask");
  Tensor grad = wide(a.tensor("grad_out")), out = wide(a.tensor("out"));
  Tensor q = wide(in.q), k = wide(in.k), v = wide(in.v);
  auto transposed = [&](Tensor x) { return b.transpose(x, -1, -2); };
  Tensor weights = b.unary(ScalarOp::Exp, scores_of(in) - b.unsqueeze(wide(a.tensor("logsumexp")), -1));
  Tensor row = b.keep(b.sum(grad * out, {-1}), {-1});
  Tensor scores = weights * (b.matmul(grad, transposed(v)) - row) * in.scale;
  return {b.cast(b.matmul(scores, k), in.q.dtype()), b.cast(b.matmul(transposed(scores), q), in.k.dtype()),
          b.cast(b.matmul(transposed(weights), grad), in.v.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::scaled_dot_product_attention", scaled_dot_product_attention},
    {"aten::_scaled_dot_product_attention_math", attention_math},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_for_cpu_backward},
};

}  // namespace

std::span<const DecompositionRow> attention_rows() { return kRows; }

}  // namespace toroid
