// ATen's scaled_dot_product_attention and its backend-specific spellings, with dropout, and their gradients.
#include "formula/backward/attention_backward.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/nn/attention_dropout.h"

namespace toroid {
namespace {

void refuse_dropout(const Args& a) {
  if (a.number("dropout_p") == 0) return;
  throw Error(ErrorKind::Unsupported,
              fmt::format("{} with dropout is not supported: on CPUs PyTorch itself does not drop in it", a.schema().name))
      .help("export the model in evaluation mode (model.eval()), or with aten::scaled_dot_product_attention");
}

// PyTorch's fused kernels take fewer heads of keys and values than of queries without a parameter that says so.
bool shares_heads(const Args& a) {
  if (has_parameter(a, "enable_gqa")) return a.flag("enable_gqa");
  const Sizes q = a.tensor("query").sizes(), k = a.tensor("key").sizes();
  return q.size() == 4 && k.size() == 4 && !sym::known_eq(q[1], k[1]);
}

// `adds_truth`: a Bool mask adds 1 where it is true, as other numbers would.
formula::AttentionOperands attention_inputs(const Args& a, std::string_view mask_name, bool adds_truth = false) {
  const Tensor mask = a.has(mask_name) ? a.tensor(mask_name) : Tensor();
  return formula::attention_operands(a.tensor("query"), a.tensor("key"), a.tensor("value"), mask,
                                     {.causal = a.flag("is_causal"),
                                      .scale = a.has("scale") ? std::optional(a.number("scale")) : std::nullopt,
                                      .shares_heads = shares_heads(a),
                                      .adds_truth = adds_truth});
}

// {result, weights} with weights dropped at random.
std::vector<Tensor> attend_with_dropout(Decomposer& d, const formula::AttentionOperands& in, double p) {
  // A row that may look at nothing gives zeros.
  const Tensor weights = d.b.cast(d.call1("aten::_safe_softmax", {formula::attention_scores(in), -1}), in.v.dtype());
  const Tensor kept = d.call1("aten::dropout", {weights, p, true});
  return {formula::from_four_dims(d.b.cast(d.b.matmul(wide(kept), wide(in.v)), in.v.dtype()), in.batch),
          formula::from_four_dims(kept, in.batch)};
}

std::vector<Tensor> scaled_dot_product_attention(Decomposer& d, const Args& a) {
  const formula::AttentionOperands in = attention_inputs(a, "attn_mask");
  if (a.number("dropout_p") != 0) return {attend_with_dropout(d, in, a.number("dropout_p"))[0]};
  return {formula::attend(in)};
}

// The form that keeps the weights; `dropout_mask` says which stay, instead of chance. A Bool mask is added as numbers are.
std::vector<Tensor> attention_math(Decomposer& d, const Args& a) {
  const formula::AttentionOperands in = attention_inputs(a, "attn_mask", /*adds_truth=*/true);
  const double p = a.number("dropout_p");
  if (!a.has("dropout_mask") && p != 0) return attend_with_dropout(d, in, p);
  const Tensor all = d.b.cast(d.call1("aten::_safe_softmax", {formula::attention_scores(in), -1}), in.v.dtype());
  if (!a.has("dropout_mask")) return {formula::attend(in), formula::from_four_dims(all, in.batch)};
  Sizes sizes = in.batch;
  sizes.append(all.sizes().last(2));
  const Tensor keep = formula::to_four_dims(d.b.expand(d.b.cast(a.tensor("dropout_mask"), DType::Bool), sizes), in.batch);
  const Tensor weights = d.b.where(keep, all, d.b.full(all.sizes(), all.dtype(), 0.0));
  const Tensor y = d.b.matmul(wide(weights), wide(in.v) * (1 / (1 - p)));
  return {formula::from_four_dims(d.b.cast(y, in.v.dtype()), in.batch), formula::from_four_dims(weights, in.batch)};
}

std::vector<Tensor> flash_attention_for_cpu(Decomposer&, const Args& a) {
  refuse_dropout(a);
  const formula::AttentionOperands in = attention_inputs(a, "attn_mask");
  return {formula::attend(in), formula::attention_log_sums(in)};
}

// ---- what the fused kernels of other devices keep -------------------------------------------------------------------

// Log-sums in the size that the kernel allocates: none when nobody wants them, or more rows than there are queries. cuDNN's have one more
// dim, of size 1.
Tensor sized_log_sums(Tensor log_sums, const TensorType& recorded) {
  Builder& b = log_sums.builder();
  if (recorded.rank() == log_sums.rank() + 1 && recorded.sizes.back().is_const(1)) return b.reshape(log_sums, recorded.sizes);
  const sym::Expr rows = log_sums.size(-1), size = recorded.sizes.empty() ? rows : recorded.sizes.back();
  if (recorded.rank() == log_sums.rank() && sym::known_eq(size, rows)) return log_sums;
  if (size.is_const(0) || recorded.rank() != log_sums.rank()) return b.full(recorded.sizes, recorded.dtype, 0.0);
  Sizes low(log_sums.sizes().size(), 0), high = low;
  high.back() = size - rows;
  return b.pad(log_sums, low, high, std::numeric_limits<double>::infinity());
}

// The head size of a scale that is not given is a part of the gradient.
void require_known_scale(const Args& a) {
  if (a.has("scale") || a.tensor("query").size(-1).is_const()) return;
  throw Error(ErrorKind::Unsupported, "the gradient of attention over a symbolic head size needs an explicit scale");
}

// The result, its log-sums, the state that its dropout was drawn with, and what only debugging or ragged batches need: zeros as the model
// records them.
std::vector<Tensor> fused_attention(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const formula::AttentionOperands in = attention_inputs(a, "attn_bias");
  const double dropout = a.number("dropout_p");
  std::optional<DropoutState> state;
  if (dropout != 0) {
    require_known_scale(a);
    state = drawn_dropout_state(d);
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < a.schema().results.size(); ++i) {
    const std::string_view name = a.schema().results[i].name;
    const bool is_known = i < d.recorded.size();
    if (name == "output") {
      results.push_back(state ? attend_with_dropout(in, *state, dropout) : formula::attend(in));
    } else if (state && (name == "rng_state" || name == "philox_seed" || name == "philox_offset")) {
      const Tensor own = name == "rng_state" ? both_parts(*state) : name == "philox_seed" ? state->key : state->call;
      results.push_back(b.cast(own, is_known ? d.recorded[i].dtype : name == "rng_state" ? DType::U64 : DType::I64));
    } else if (name == "logsumexp" || name == "log_sumexp") {
      Tensor log_sums = formula::attention_log_sums(in);
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

// The sum over the heads of queries that share the given heads of keys or values.
Tensor of_shared_heads(Tensor gradient, Tensor given) {
  if (given.rank() != 4 || sym::known_eq(gradient.size(1), given.size(1))) return gradient;
  Builder& b = gradient.builder();
  Sizes grouped = given.sizes();
  grouped.insert(grouped.begin() + 2, sym::floor_div(gradient.size(1), given.size(1)));
  return b.cast(b.sum(wide(b.reshape(gradient, grouped)), {2}), gradient.dtype());
}

std::vector<Tensor> fused_attention_backward(Decomposer& d, const Args& a) {
  const double dropout = a.number("dropout_p");
  if (dropout != 0 && !has_parameter(a, "philox_seed")) refuse_dropout(a);
  const bool has_bias_name = has_parameter(a, "attn_bias");
  const std::string_view mask_name = has_bias_name ? "attn_bias" : "attn_mask";
  require_known_scale(a);
  const formula::AttentionOperands in = attention_inputs(a, mask_name);
  Tensor grad = a.tensor(has_parameter(a, "grad_out_") ? "grad_out_" : "grad_out");
  Tensor log_sums = a.tensor("logsumexp");
  if (log_sums.rank() == grad.rank()) log_sums = d.b.reshape(log_sums, log_sums.sizes().first(log_sums.sizes().size() - 1));
  const Tensor kept = dropout == 0 ? Tensor() : kept_weights(dropout_state_of(a), in, dropout);
  const formula::AttentionGradients of = formula::attention_backward(grad, in, a.tensor("out"), log_sums, kept, dropout);
  std::vector<Tensor> gradients = {of.q, of_shared_heads(of.k, a.tensor("key")), of_shared_heads(of.v, a.tensor("value")), of.scores};
  gradients.resize(a.schema().results.size());
  if (!has_parameter(a, "grad_input_mask")) return gradients;
  if (is_wanted(a, "grad_input_mask", 3) && a.has(mask_name)) {
    Tensor bias = a.tensor(mask_name);
    gradients[3] = d.b.cast(d.call1("aten::sum_to_size", {of.scores, bias.sizes()}), bias.dtype());
  }
  for (size_t i = 0; i < 3; ++i) {
    if (!is_wanted(a, "grad_input_mask", i)) gradients[i] = {};
  }
  return gradients;
}

constexpr DecompositionRow kAttentionRows[] = {
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
    {"toroid::attention_backward", fused_attention_backward},
};

}  // namespace

std::span<const DecompositionRow> attention_rows() { return kAttentionRows; }

}  // namespace toroid
