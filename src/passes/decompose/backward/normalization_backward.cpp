// Gradients of batch, layer, group and RMS normalisation, and of weight norm.
//
// All normalisations are h = (x - mean) / deviation, then a scale by `weight` and a shift. With g the gradient of h, and
// means over the dims that were normalised together,
//
//   dx = (g - mean(g) - h * mean(g * h)) / deviation      dweight = sum of grad * h      dbias = sum of grad
//
// Statistics that do not depend on x (running ones) or that subtract no mean (RMS) drop the terms that come from them.
// The sums read what dx reads and over the same rows, so that they run in one kernel where the scheduler finds that.
#include "base/error.h"
#include "formula/basics/channels.h"
#include "formula/basics/moments.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/arguments/recorded.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

Tensor mean_keeping(Tensor x, const Dims& dims) { return x.builder().keep(x.builder().mean(x, dims), dims); }

// ---- batch norm -----------------------------------------------------------------------------------------------------

struct BatchStatistics {
  Tensor mean, inverse_deviation;  // [C], wide
  bool of_batch;                   // they depend on x
};

// (dx, dweight, dbias); the weight's gradients come in the dtype that the model records, else wide.
std::vector<Tensor> batch_norm_gradients(Decomposer& d, Tensor grad_out, Tensor input, Tensor weight, const BatchStatistics& statistics) {
  Builder& b = d.b;
  Tensor x = wide(input), grad = wide(grad_out);
  const int64_t rank = x.rank();
  const Dims dims = all_but(rank, 1);
  Tensor inverse = per_channel(statistics.inverse_deviation, rank);
  Tensor normalized = (x - per_channel(statistics.mean, rank)) * inverse;
  Tensor grad_bias = b.sum(grad, dims), grad_weight = b.sum(grad * normalized, dims);
  Tensor centred = grad;
  if (statistics.of_batch) {
    sym::Expr count = 1;
    for (int64_t dim : dims) count = count * x.size(dim);
    auto mean = [&](Tensor sum) { return per_channel(b.binary(ScalarOp::Div, sum, Scalar(count)), rank); };
    centred = grad - mean(grad_bias) - normalized * mean(grad_weight);
  }
  Tensor scale = weight.defined() ? inverse * per_channel(wide(weight), rank) : inverse;
  return {b.cast(centred * scale, input.dtype()), as_recorded(d, 1, grad_weight), as_recorded(d, 2, grad_bias)};
}

BatchStatistics saved_statistics(const Args& a, std::string_view deviation_name) {
  return {wide(a.tensor("save_mean")), wide(a.tensor(deviation_name)), true};
}

BatchStatistics running_statistics(const Args& a, double eps) {
  return {wide(a.tensor("running_mean")), inverse_deviation(wide(a.tensor("running_var")), eps), false};
}

std::vector<Tensor> only_wanted(const Args& a, std::vector<Tensor> gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!is_wanted(a, i)) gradients[i] = {};
  }
  return gradients;
}

std::vector<Tensor> native_batch_norm_backward(Decomposer& d, const Args& a) {
  const BatchStatistics statistics = a.flag("train") ? saved_statistics(a, "save_invstd") : running_statistics(a, a.number("eps"));
  return only_wanted(a, batch_norm_gradients(d, a.tensor("grad_out"), a.tensor("input"), a.optional_tensor("weight"), statistics));
}

// `save_var` is 1/deviation, as the forward operator saves it.
std::vector<Tensor> batch_norm_backward(Decomposer& d, const Args& a) {
  const BatchStatistics statistics = a.flag("update") ? saved_statistics(a, "save_var") : running_statistics(a, a.number("eps"));
  return only_wanted(a, batch_norm_gradients(d, a.tensor("grad_out"), a.tensor("input"), a.optional_tensor("weight"), statistics));
}

std::vector<Tensor> cudnn_batch_norm_backward(Decomposer& d, const Args& a) {
  return batch_norm_gradients(d, a.tensor("grad_output"), a.tensor("input"), a.optional_tensor("weight"), saved_statistics(a, "save_var"));
}

// ---- layer and RMS norm ---------------------------------------------------------------------------------------------

Tensor sum_outer(Tensor x, size_t inner, DType dtype) {
  Dims outer;
  for (int64_t dim = 0; dim < x.rank() - static_cast<int64_t>(inner); ++dim) outer.push_back(dim);
  return x.builder().cast(outer.empty() ? x : x.builder().sum(x, outer), dtype);
}

std::vector<Tensor> native_layer_norm_backward(Decomposer& d, const Args& a) {
  Tensor input = a.tensor("input"), x = wide(input), grad = wide(a.tensor("grad_out"));
  Tensor inverse = wide(a.tensor("rstd")), weight = wide(a.optional_tensor("weight"));
  const size_t inner = a.integers("normalized_shape").size();
  const Dims dims = trailing(x, inner);
  Tensor normalized = (x - wide(a.tensor("mean"))) * inverse;
  std::vector<Tensor> gradients(3);
  if (is_wanted(a, 0)) {
    Tensor g = weight.defined() ? grad * weight : grad;
    Tensor centred = g - mean_keeping(g, dims) - normalized * mean_keeping(g * normalized, dims);
    gradients[0] = d.b.cast(centred * inverse, input.dtype());
  }
  if (is_wanted(a, 1)) gradients[1] = as_recorded(d, 1, sum_outer(grad * normalized, inner, input.dtype()));
  if (is_wanted(a, 2)) gradients[2] = as_recorded(d, 2, sum_outer(grad, inner, input.dtype()));
  return gradients;
}

std::vector<Tensor> fused_rms_norm_backward(Decomposer& d, const Args& a) {
  Tensor input = a.tensor("input"), grad = wide(a.tensor("grad_out"));
  Tensor inverse = wide(a.tensor("rstd")), weight = wide(a.optional_tensor("weight"));
  const size_t inner = a.integers("normalized_shape").size();
  Tensor normalized = wide(input) * inverse;
  std::vector<Tensor> gradients(2);
  if (is_wanted(a, 0)) {
    Tensor g = weight.defined() ? grad * weight : grad;
    Tensor slope = g - normalized * mean_keeping(g * normalized, trailing(input, inner));
    gradients[0] = d.b.cast(slope * inverse, input.dtype());
  }
  if (is_wanted(a, 1)) gradients[1] = as_recorded(d, 1, sum_outer(grad * normalized, inner, input.dtype()));
  return gradients;
}

// ---- group norm -----------------------------------------------------------------------------------------------------

std::vector<Tensor> native_group_norm_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor input = a.tensor("input"), grad = wide(a.tensor("grad_out")), weight = wide(a.optional_tensor("weight"));
  const sym::Expr groups = a.integer("group");
  Tensor x = split_channels(wide(input), groups);
  Dims dims;
  for (int64_t dim = 2; dim < x.rank(); ++dim) dims.push_back(dim);
  auto per_group = [&](std::string_view name) {
    Sizes sizes(x.sizes().size(), 1);
    sizes[0] = x.size(0);
    sizes[1] = groups;
    return b.reshape(wide(a.tensor(name)), sizes);
  };
  Tensor inverse = per_group("rstd");
  Tensor normalized = (x - per_group("mean")) * inverse;
  std::vector<Tensor> gradients(3);
  if (is_wanted(a, 0)) {
    Tensor g = split_channels(weight.defined() ? grad * per_channel(weight, input.rank()) : grad, groups);
    Tensor centred = g - mean_keeping(g, dims) - normalized * mean_keeping(g * normalized, dims);
    gradients[0] = b.cast(b.reshape(centred * inverse, input.sizes()), input.dtype());
  }
  const Dims all_but_channels = all_but(input.rank(), 1);
  auto over_channels = [&](size_t i, Tensor sum) { return as_recorded(d, i, b.cast(sum, input.dtype())); };
  if (is_wanted(a, 1)) {
    gradients[1] = over_channels(1, b.sum(grad * b.reshape(normalized, input.sizes()), all_but_channels));
  }
  if (is_wanted(a, 2)) gradients[2] = over_channels(2, b.sum(grad, all_but_channels));
  return gradients;
}

// ---- weight norm ----------------------------------------------------------------------------------------------------

// w = v * g / |v|, norms over all dims but one: dg = sum(dw * v) / |v|, dv = g/|v| * (dw - v * sum(dw * v) / |v|^2).
std::vector<Tensor> weight_norm_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor v = a.tensor("saved_v"), g = a.tensor("saved_g");
  Tensor grad = wide(a.tensor("grad_w")), norm = wide(a.tensor("saved_norms"));
  const Dims dims = all_but(v.rank(), b.wrap_dim(a.constant("dim"), v.rank()));
  Tensor along_v = grad * wide(v);
  if (!dims.empty()) along_v = b.keep(b.sum(along_v, dims), dims);
  Tensor grad_v = wide(g) / norm * (grad - wide(v) * (along_v / (norm * norm)));
  return {b.cast(grad_v, v.dtype()), b.cast(along_v / norm, g.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::native_batch_norm_backward", native_batch_norm_backward},     {"aten::batch_norm_backward", batch_norm_backward},
    {"aten::cudnn_batch_norm_backward", cudnn_batch_norm_backward},       {"aten::miopen_batch_norm_backward", cudnn_batch_norm_backward},
    {"aten::native_layer_norm_backward", native_layer_norm_backward},     {"aten::_fused_rms_norm_backward", fused_rms_norm_backward},
    {"aten::native_group_norm_backward", native_group_norm_backward},     {"aten::_weight_norm_interface_backward", weight_norm_backward},
    {"aten::_weight_norm_differentiable_backward", weight_norm_backward},
};

}  // namespace

std::span<const DecompositionRow> normalization_backward_rows() { return kRows; }

}  // namespace toroid
