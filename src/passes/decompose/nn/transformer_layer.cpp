// The whole-layer operators behind nn.MultiheadAttention and nn.TransformerEncoderLayer outside training.
//
// Weights of queries, keys and values are stacked in one matrix; masks are true where nothing is seen.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// What mask_type says: which scores a mask belongs to.
constexpr int64_t kPairs = 0, kKeys = 1;

// A mask of [L, L], [N, L] or the scores' own shape, so that it broadcasts against scores [N, H, L, L].
Tensor mask_for_scores(const Args& a, Tensor scores) {
  Builder& b = scores.builder();
  Tensor mask = b.cast(a.tensor("mask"), DType::Bool);
  const bool has_type = a.has("mask_type");
  if (mask.rank() == 2 && (!has_type || a.constant("mask_type") == kPairs)) return mask;
  if (mask.rank() == 2 && a.constant("mask_type") == kKeys) return b.reshape(mask, {mask.size(0), 1, 1, mask.size(1)});
  if (mask.rank() == scores.rank()) return mask;
  throw Error(ErrorKind::InvalidModel, fmt::format("{} with a mask of rank {}", a.schema().name, mask.rank()));
}

// Masked elements count as -inf; a row of them gives NaN.
Tensor masked_softmax(Tensor x, Tensor mask, int64_t dim) {
  Builder& b = x.builder();
  Tensor seen = where(mask, -std::numeric_limits<double>::infinity(), x);
  Tensor largest = b.keep(b.amax(seen, {dim}), {dim});
  Tensor powers = where(mask, 0, exp(seen - largest));
  Tensor sum = b.keep(b.sum(powers, {dim}), {dim});
  return powers / sum;
}

std::vector<Tensor> masked_softmax_op(Decomposer& d, const Args& a) {
  Tensor self = a.tensor("self"), x = wide(self);
  Tensor mask = d.b.expand(mask_for_scores(a, x), x.sizes());
  const int64_t dim = d.b.wrap_dim(a.has("dim") ? a.constant("dim") : -1, x.rank());
  return {d.b.cast(masked_softmax(x, mask, dim), self.dtype())};
}

// ---- attention ------------------------------------------------------------------------------------------------------

// [N, L, D] as [N, H, L, D / H].
Tensor in_heads(Tensor x, sym::Expr heads) {
  Builder& b = x.builder();
  Tensor split = b.reshape(x, {x.size(0), x.size(1), heads, sym::floor_div(x.size(2), heads)});
  return b.permute(split, {0, 2, 1, 3});
}

double scale_of(Tensor heads) {
  const sym::Expr width = heads.size(-1);
  if (!width.is_const()) throw Error(ErrorKind::Unsupported, "attention over a symbolic head size");
  return 1.0 / std::sqrt(static_cast<double>(width.value()));
}

// Rows [part*D, part*D + D) of the stacked weights.
Tensor projected(Decomposer& d, const Args& a, Tensor x, int64_t part) {
  Tensor weight = a.tensor("qkv_weight"), bias = a.tensor("qkv_bias");
  const sym::Expr width = sym::floor_div(weight.size(0), 3);
  return d.call1("aten::linear", {x, d.b.slice(weight, 0, width * part, width), d.b.slice(bias, 0, width * part, width)});
}

struct Attended {
  Tensor output;   // [N, L, D]
  Tensor weights;  // [N, H, L, S]
};

Attended attend(Decomposer& d, const Args& a, Tensor query, Tensor key, Tensor value, sym::Expr heads) {
  Builder& b = d.b;
  Tensor q = in_heads(projected(d, a, query, 0), heads), k = in_heads(projected(d, a, key, 1), heads),
         v = in_heads(projected(d, a, value, 2), heads);
  Tensor scores = wide(b.matmul(q, b.transpose(k, -1, -2))) * scale_of(q);
  Tensor weights = a.has("mask") ? masked_softmax(scores, b.expand(mask_for_scores(a, scores), scores.sizes()), 3)
                                 : wide(d.call1("aten::softmax.int", {scores, -1}));
  Tensor joined = b.permute(b.matmul(b.cast(weights, v.dtype()), v), {0, 2, 1, 3});
  joined = b.reshape(joined, {query.size(0), query.size(1), a.tensor("proj_weight").size(1)});
  return {d.call1("aten::linear", {joined, a.tensor("proj_weight"), a.tensor("proj_bias")}), b.cast(weights, q.dtype())};
}

std::vector<Tensor> multi_head_attention(Decomposer& d, const Args& a) {
  const Attended result = attend(d, a, a.tensor("query"), a.tensor("key"), a.tensor("value"), a.integer("num_head"));
  if (!a.flag("need_weights")) return {result.output, d.b.full({0}, result.output.dtype(), 0.0)};
  if (!a.flag("average_attn_weights")) return {result.output, result.weights};
  return {result.output, d.b.cast(d.b.mean(wide(result.weights), {1}), result.weights.dtype())};
}

// q, k and v in heads, the bias added and q scaled.
std::vector<Tensor> bias_and_scale(Decomposer& d, const Args& a) {
  Tensor qkv = a.tensor("qkv"), sum = wide(qkv) + wide(a.tensor("qkv_bias"));
  const sym::Expr width = sym::floor_div(qkv.size(2), 3);
  std::vector<Tensor> results;
  for (int64_t part = 0; part < 3; ++part) {
    Tensor heads = in_heads(d.b.slice(sum, 2, width * part, width), a.integer("num_heads"));
    if (part == 0) heads = heads * scale_of(heads);
    results.push_back(d.b.cast(heads, qkv.dtype()));
  }
  return results;
}

// ---- a layer --------------------------------------------------------------------------------------------------------

std::vector<Tensor> encoder_layer(Decomposer& d, const Args& a) {
  Tensor source = a.tensor("src");
  const bool norm_first = a.flag("norm_first");
  auto norm = [&](Tensor x, const char* weight, const char* bias) {
    return d.call1("aten::layer_norm", {x, Sizes{a.integer("embed_dim")}, a.tensor(weight), a.tensor(bias), a.number("eps")});
  };
  auto first_norm = [&](Tensor x) { return norm(x, "norm_weight_1", "norm_bias_1"); };
  auto second_norm = [&](Tensor x) { return norm(x, "norm_weight_2", "norm_bias_2"); };
  auto feed_forward = [&](Tensor x) {
    Tensor hidden = d.call1("aten::linear", {x, a.tensor("ffn_weight_1"), a.tensor("ffn_bias_1")});
    hidden = d.call1(a.flag("use_gelu") ? "aten::gelu" : "aten::relu", {hidden});
    return d.call1("aten::linear", {hidden, a.tensor("ffn_weight_2"), a.tensor("ffn_bias_2")});
  };
  Tensor x = norm_first ? first_norm(source) : source;
  x = attend(d, a, x, x, x, a.integer("num_heads")).output + source;
  if (!norm_first) x = first_norm(x);
  x = feed_forward(norm_first ? second_norm(x) : x) + x;
  return {norm_first ? x : second_norm(x)};
}

constexpr DecompositionRow kEncoderLayerRows[] = {
    {"aten::_masked_softmax", masked_softmax_op},
    {"aten::_native_multi_head_attention", multi_head_attention},
    {"aten::_transform_bias_rescale_qkv", bias_and_scale},
    {"aten::_transformer_encoder_layer_fwd", encoder_layer},
};

}  // namespace

std::span<const DecompositionRow> encoder_layer_rows() { return kEncoderLayerRows; }

}  // namespace toroid
