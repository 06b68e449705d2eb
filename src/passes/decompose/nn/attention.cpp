// scaled_dot_product_attention and its backend-specific spellings become one Attention operation over [B, H, L, E].
//
// Before it: grouped keys and values repeat to the number of query heads, other ranks are brought to four dims, and a
// Bool mask becomes what is added to the scores (0 where true, -inf where false). A row that may look at nothing yields
// zeros.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

struct AttentionInputs {
  Tensor q, k, v, mask;  // [B, H, L, E], [B, H, S, E], [B, H, S, Ev], undefined or [B, H, L, S] in q's dtype
  bool causal = false;
  double scale = 1;
  Sizes batch;  // the batch dims of the caller, which [B, H] stand for
};

// What the scores are multiplied by. A head size that is known only when the program runs gives no number here: the query itself is then
// divided by its root.
void set_scale(AttentionInputs& in, const Args& a) {
  if (a.has("scale")) {
    in.scale = a.number("scale");
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

void refuse_dropout(const Args& a) {
  if (a.number("dropout_p") == 0) return;
  throw Error(ErrorKind::Unsupported,
              fmt::format("{} with dropout is not supported: on CPUs PyTorch itself does not drop in it", a.schema().name))
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

// What is added to the scores.
Tensor additive(Tensor mask, DType dtype) {
  Builder& b = mask.builder();
  if (mask.dtype() != DType::Bool) return b.cast(mask, dtype);
  return b.where(mask, b.scalar(dtype, 0.0), b.scalar(dtype, -std::numeric_limits<double>::infinity()));
}

// `adds_truth`: a Bool mask adds 1 where it is true, as other numbers would.
AttentionInputs attention_inputs(const Args& a, std::string_view mask_name, bool adds_truth = false) {
  AttentionInputs in;
  in.q = a.tensor("query");
  in.k = a.tensor("key");
  in.v = a.tensor("value");
  if (in.q.rank() < 2 || in.k.rank() < 2 || in.v.rank() < 2) {
    throw Error(ErrorKind::InvalidModel, "attention needs tensors of rank 2 or more");
  }
  Builder& b = in.q.builder();
  in.causal = a.flag("is_causal");
  set_scale(in, a);
  if (a.has("enable_gqa") && a.flag("enable_gqa")) {
    in.k = repeat_heads(in.k, in.q);
    in.v = repeat_heads(in.v, in.q);
  }
  auto batch_of = [](Tensor x) { return x.sizes().without_last(2); };
  in.batch = b.broadcast(b.broadcast(batch_of(in.q), batch_of(in.k)), batch_of(in.v));
  if (a.has(mask_name)) {
    Tensor given = a.tensor(mask_name);
    Tensor mask = adds_truth ? b.cast(given, in.q.dtype()) : additive(given, in.q.dtype());
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

// What x repeats, where it is [B, H, S, E] made of [B, K, S, E] by giving each head to as many others: [B, K, 1, S, E] expanded and reshaped.
Tensor before_repeat(Tensor x) {
  Builder& b = x.builder();
  const Graph& graph = b.graph();
  const Node& reshaped = graph.producer(x.id());
  if (!std::holds_alternative<Reshape>(reshaped.op)) return {};
  const Node& expanded = graph.producer(reshaped.inputs[0]);
  if (!std::holds_alternative<Expand>(expanded.op)) return {};
  const Sizes &from = graph.type(expanded.inputs[0]).sizes, &to = graph.type(expanded.outputs[0]).sizes;
  if (x.rank() != 4 || from.size() != 5 || to.size() != 5 || !from[2].is_const(1)) return {};
  for (size_t d : {0u, 1u, 3u, 4u}) {
    if (!sym::known_eq(from[d], to[d])) return {};
  }
  if (!sym::known_eq(x.size(0), to[0]) || !sym::known_eq(x.size(1), to[1] * to[2]) || !sym::known_eq(x.size(2), to[3])) return {};
  return b.reshape(b.wrap(expanded.inputs[0]), {from[0], from[1], from[3], from[4]});
}

Tensor attend(const AttentionInputs& in) {
  Tensor k = before_repeat(in.k), v = before_repeat(in.v);
  // The kernel lets heads share keys and values; then nothing is repeated in memory.
  const bool shares = k.defined() && v.defined() && sym::known_eq(k.size(1), v.size(1));
  Tensor y = in.q.builder().attention(in.q, shares ? k : in.k, shares ? v : in.v, in.mask, in.causal, in.scale);
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
  Tensor sum = b.sum(b.unary(ScalarOp::ExpNormal, scores - largest), {-1});
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

// The form that keeps the weights; `dropout_mask` says which stay, instead of chance. A Bool mask is added as numbers are.
std::vector<Tensor> attention_math(Decomposer& d, const Args& a) {
  const AttentionInputs in = attention_inputs(a, "attn_mask", /*adds_truth=*/true);
  const double p = a.number("dropout_p");
  if (!a.has("dropout_mask") && p != 0) return attend_with_dropout(d, in, p);
  const Tensor all = d.b.cast(d.call1("aten::_safe_softmax", {scores_of(in), -1}), in.v.dtype());
  if (!a.has("dropout_mask")) return {attend(in), from_four_dims(all, in.batch)};
  Sizes sizes = in.batch;
  sizes.append(all.sizes().last(2));
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

// ---- what the fused kernels of other devices keep -------------------------------------------------------------------

// Log-sums in the size that the kernel allocates: none when nobody wants them, or more rows than there are queries.
Tensor sized_log_sums(Tensor log_sums, const TensorType& recorded) {
  Builder& b = log_sums.builder();
  const sym::Expr rows = log_sums.size(-1), size = recorded.sizes.empty() ? rows : recorded.sizes.back();
  if (recorded.rank() == log_sums.rank() && sym::known_eq(size, rows)) return log_sums;
  if (size.is_const(0) || recorded.rank() != log_sums.rank()) return b.full(recorded.sizes, recorded.dtype, 0.0);
  Sizes low(log_sums.sizes().size(), 0), high = low;
  high.back() = size - rows;
  return b.pad(log_sums, low, high, std::numeric_limits<double>::infinity());
}

// The result, its log-sums, and what only dropout, debugging or ragged batches need: zeros as the model records them.
std::vector<Tensor> fused_attention(Decomposer& d, const Args& a) {
  refuse_dropout(a);
  Builder& b = d.b;
  const AttentionInputs in = attention_inputs(a, "attn_bias");
  std::vector<Tensor> results;
  for (size_t i = 0; i < a.schema().results.size(); ++i) {
    const std::string_view name = a.schema().results[i].name;
    const bool is_known = i < d.recorded.size();
    if (name == "output") {
      results.push_back(attend(in));
    } else if (name == "logsumexp" || name == "log_sumexp") {
      Tensor log_sums = log_sum_exp(in);
      results.push_back(is_known ? sized_log_sums(log_sums, d.recorded[i]) : log_sums);
    } else if (name == "max_q" || name == "max_k") {
      results.push_back(b.scalar(DType::I64, (name == "max_q" ? in.q : in.k).size(-2)));
    } else {
      results.push_back(is_known ? b.full(d.recorded[i].sizes, d.recorded[i].dtype, sym::Expr(0)) : Tensor());
    }
  }
  return results;
}

// ---- gradients ------------------------------------------------------------------------------------------------------

// With P the attention weights, recomputed from the kept log-sums:
//   dV = P^T dO      dS = P (dO V^T - sum(dO * O))      dQ = scale dS K      dK = scale dS^T Q      dmask = dS
std::vector<Tensor> attention_gradients(Decomposer& d, const Args& a, const AttentionInputs& in, Tensor grad) {
  Builder& b = d.b;
  grad = to_four_dims(wide(grad), in.batch);
  Tensor out = to_four_dims(wide(a.tensor("out")), in.batch);
  Tensor q = wide(in.q), k = wide(in.k), v = wide(in.v), log_sums = wide(a.tensor("logsumexp"));
  auto transposed = [&](Tensor x) { return b.transpose(x, -1, -2); };
  log_sums = b.slice(log_sums, -1, 0, q.size(-2));  // kernels may keep more rows
  log_sums = b.reshape(log_sums, {q.size(0), q.size(1), q.size(2), 1});
  Tensor weights = b.unary(ScalarOp::ExpNormal, scores_of(in) - log_sums);
  Tensor row = b.keep(b.sum(grad * out, {-1}), {-1});
  Tensor of_scores = weights * (b.matmul(grad, transposed(v)) - row), scaled = of_scores * in.scale;
  return {b.cast(b.matmul(scaled, k), in.q.dtype()), b.cast(b.matmul(transposed(scaled), q), in.k.dtype()),
          b.cast(b.matmul(transposed(weights), grad), in.v.dtype()), of_scores};
}

std::vector<Tensor> fused_attention_backward(Decomposer& d, const Args& a) {
  refuse_dropout(a);
  const bool has_bias_name = has_parameter(a, "attn_bias");
  const std::string_view mask_name = has_bias_name ? "attn_bias" : "attn_mask";
  if (!a.has("scale") && !a.tensor("query").size(-1).is_const()) {
    throw Error(ErrorKind::Unsupported, "the gradient of attention over a symbolic head size needs an explicit scale");
  }
  const AttentionInputs in = attention_inputs(a, mask_name);
  Tensor grad = a.tensor(has_parameter(a, "grad_out_") ? "grad_out_" : "grad_out");
  std::vector<Tensor> gradients = attention_gradients(d, a, in, grad);
  Tensor of_scores = gradients[3];
  gradients.resize(a.schema().results.size());
  if (!has_parameter(a, "grad_input_mask")) return gradients;
  if (is_wanted(a, "grad_input_mask", 3) && a.has(mask_name)) {
    Tensor bias = a.tensor(mask_name);
    gradients[3] = d.b.cast(d.call1("aten::sum_to_size", {of_scores, bias.sizes()}), bias.dtype());
  }
  for (size_t i = 0; i < 3; ++i) {
    if (!is_wanted(a, "grad_input_mask", i)) gradients[i] = {};
  }
  return gradients;
}

constexpr DecompositionRow kRows[] = {
    {"aten::scaled_dot_product_attention", scaled_dot_product_attention},
    {"aten::_scaled_dot_product_attention_math", attention_math},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu},
    {"aten::_scaled_dot_product_attention_math_for_mps", attention_math},
    {"aten::_scaled_dot_product_flash_attention", fused_attention},
    {"aten::_scaled_dot_product_efficient_attention", fused_attention},
    {"aten::_scaled_dot_product_cudnn_attention", fused_attention},
    {"aten::_scaled_dot_product_fused_attention_overrideable", fused_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", fused_attention_backward},
    {"aten::_scaled_dot_product_flash_attention_backward", fused_attention_backward},
    {"aten::_scaled_dot_product_efficient_attention_backward", fused_attention_backward},
    {"aten::_scaled_dot_product_cudnn_attention_backward", fused_attention_backward},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward", fused_attention_backward},
};

}  // namespace

std::span<const DecompositionRow> attention_rows() { return kRows; }

}  // namespace toroid
