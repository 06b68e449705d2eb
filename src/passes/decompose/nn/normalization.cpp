// ATen's batch, layer, group, instance and RMS norms, and norms of parameters.
#include "formula/nn/normalization.h"

#include <cmath>

#include "formula/basics/precision.h"
#include "passes/decompose/arguments/recorded.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// ---- batch norm -----------------------------------------------------------------------------------------------------

// Outside training only `y` is defined. For an input without elements no other argument is read.
formula::BatchNorm normalize_batch(const Args& a, bool training) {
  const double momentum = a.number("momentum");
  Tensor x = a.tensor("input");
  formula::BatchNorm norm;
  if (x.numel().is_const(0)) {
    norm.y = formula::batch_norm(x, {}, {}, {}, {}, 0);
    return norm;
  }
  Tensor weight = a.optional_tensor("weight"), bias = a.optional_tensor("bias");
  Tensor mean = a.optional_tensor("running_mean"), variance = a.optional_tensor("running_var");
  const double eps = a.number("eps");
  if (training) return formula::batch_norm_in_training(x, mean, variance, weight, bias, momentum, eps);
  norm.y = formula::batch_norm(x, mean, variance, weight, bias, eps);
  return norm;
}

// The schemas of batch_norm and native_batch_norm hide that training updates the running statistics.
void write_running(Decomposer& d, const formula::BatchNorm& norm) {
  if (norm.running_mean.defined()) d.write("running_mean", norm.running_mean);
  if (norm.running_variance.defined()) d.write("running_var", norm.running_variance);
}

std::vector<Tensor> batch_norm(Decomposer& d, const Args& a) {
  const formula::BatchNorm norm = normalize_batch(a, a.flag("training"));
  write_running(d, norm);
  return {norm.y};
}

// Result `index` where there is no statistic: without elements outside training. In training, which PyTorch refuses without elements, it is
// NaN for each channel, as with a free size that is 0; but what the model records counts.
Tensor no_statistic(Decomposer& d, size_t index, Tensor y, bool training) {
  Sizes sizes = {0};
  if (y.rank() > 1) {
    const Sizes of_channels = {y.size(1)};
    if (training) sizes = of_channels;
    if (index < d.recorded.size() && d.recorded[index].rank() == 1) {
      const sym::Expr& recorded = d.recorded[index].sizes[0];
      if (recorded.is_const(0)) sizes = {0};
      if (sym::known_eq(recorded, of_channels[0])) sizes = of_channels;
    }
  }
  return d.b.full(sizes, compute_dtype(y.dtype()), std::nan(""));
}

// (y, mean, 1/deviation): there are none of the last two outside training.
std::vector<Tensor> with_statistics(Decomposer& d, const formula::BatchNorm& norm, bool training) {
  Tensor mean = norm.mean.defined() ? norm.mean : no_statistic(d, 1, norm.y, training);
  Tensor inverse = norm.inverse_deviation.defined() ? norm.inverse_deviation : no_statistic(d, 2, norm.y, training);
  return {norm.y, as_recorded(d, 1, mean), as_recorded(d, 2, inverse)};
}

std::vector<Tensor> native_batch_norm(Decomposer& d, const Args& a) {
  const formula::BatchNorm norm = normalize_batch(a, a.flag("training"));
  write_running(d, norm);
  return with_statistics(d, norm, a.flag("training"));
}

std::vector<Tensor> native_batch_norm_no_training(Decomposer& d, const Args& a) {
  return with_statistics(d, normalize_batch(a, false), false);
}

// What the running statistics become, as further results. PyTorch records wider ones than it has where they are of 16 bits.
void append_running(Decomposer& d, const Args& a, const formula::BatchNorm& norm, std::vector<Tensor>& results) {
  results.push_back(as_recorded(d, results.size(), norm.running_mean.defined() ? norm.running_mean : a.tensor("running_mean")));
  results.push_back(as_recorded(d, results.size(), norm.running_variance.defined() ? norm.running_variance : a.tensor("running_var")));
}

std::vector<Tensor> native_batch_norm_updating(Decomposer& d, const Args& a) {
  const formula::BatchNorm norm = normalize_batch(a, a.flag("training"));
  std::vector<Tensor> results = with_statistics(d, norm, a.flag("training"));
  append_running(d, a, norm, results);
  return results;
}

std::vector<Tensor> batch_norm_with_update(Decomposer& d, const Args& a) {
  const formula::BatchNorm norm = normalize_batch(a, true);
  std::vector<Tensor> results = with_statistics(d, norm, true);
  results.push_back(d.b.full({0}, DType::U8, sym::Expr(0)));  // the space cuDNN would reserve
  append_running(d, a, norm, results);
  return results;
}

std::vector<Tensor> batch_norm_no_update(Decomposer& d, const Args& a) {
  const bool training = !a.has("running_mean");
  std::vector<Tensor> results = with_statistics(d, normalize_batch(a, training), training);
  results.push_back(d.b.full({0}, DType::U8, sym::Expr(0)));
  return results;
}

// Without input statistics this is batch_norm outside training.
std::vector<Tensor> instance_norm(Decomposer&, const Args& a) {
  if (!a.flag("use_input_stats")) return {normalize_batch(a, false).y};
  return {formula::instance_norm(a.tensor_of_rank("input", 2), a.optional_tensor("weight"), a.optional_tensor("bias"), a.number("eps"))};
}

// ---- layer, RMS and group norm --------------------------------------------------------------------------------------

std::vector<Tensor> native_layer_norm(Decomposer& d, const Args& a) {
  const size_t count = a.integers("normalized_shape").size();
  const formula::Normalized n =
      formula::layer_norm(a.tensor("input"), count, a.optional_tensor("weight"), a.optional_tensor("bias"), a.number("eps"));
  return {n.y, as_recorded(d, 1, n.mean), as_recorded(d, 2, n.inverse_deviation)};
}

std::vector<Tensor> layer_norm(Decomposer& d, const Args& a) { return {native_layer_norm(d, a)[0]}; }

std::vector<Tensor> fused_rms_norm(Decomposer& d, const Args& a) {
  const size_t count = a.integers("normalized_shape").size();
  const std::optional<double> eps = a.has("eps") ? std::optional(a.number("eps")) : std::nullopt;
  const formula::Normalized n = formula::rms_norm(a.tensor("input"), count, a.optional_tensor("weight"), eps);
  return {n.y, as_recorded(d, 1, n.inverse_deviation)};
}

std::vector<Tensor> rms_norm(Decomposer& d, const Args& a) { return {fused_rms_norm(d, a)[0]}; }

std::vector<Tensor> normalize_groups(Decomposer& d, const Args& a, sym::Expr groups) {
  Tensor x = a.tensor("input");
  const formula::Normalized n = formula::group_norm(x, groups, a.optional_tensor("weight"), a.optional_tensor("bias"), a.number("eps"));
  const Sizes per_group = {x.size(0), groups};
  return {n.y, as_recorded(d, 1, d.b.reshape(n.mean, per_group)), as_recorded(d, 2, d.b.reshape(n.inverse_deviation, per_group))};
}

std::vector<Tensor> group_norm(Decomposer& d, const Args& a) { return {normalize_groups(d, a, a.integer("num_groups"))[0]}; }
std::vector<Tensor> native_group_norm(Decomposer& d, const Args& a) { return normalize_groups(d, a, a.integer("group")); }

// ---- norms of parameters --------------------------------------------------------------------------------------------

std::vector<Tensor> weight_norm_interface(Decomposer& d, const Args& a) {
  const formula::WeightNorm w = formula::weight_norm(a.tensor("v"), a.tensor("g"), a.constant("dim"));
  return {w.weight, as_recorded(d, 1, w.norm)};
}

std::vector<Tensor> weight_norm(Decomposer& d, const Args& a) { return {weight_norm_interface(d, a)[0]}; }

// Rows that `indices` names and whose norm exceeds max_norm are scaled down to it.
std::vector<Tensor> embedding_renorm(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor weight = a.tensor("self"), indices = a.tensor("indices");
  const double max_norm = a.number("max_norm");
  Tensor norm = d.call1("aten::linalg_vector_norm", {wide(weight), a.number("norm_type"), Dims{1}, true});
  Tensor none = b.full({weight.size(0)}, DType::Bool, false);
  Tensor named = b.scatter(none, b.scalar(DType::Bool, true), {b.reshape(indices, {indices.numel()})}, ScatterMode::Set);
  Tensor too_long = b.binary(ScalarOp::BitAnd, b.unsqueeze(named, 1), b.binary(ScalarOp::Gt, norm, Scalar(max_norm)));
  Tensor shorter = b.cast(wide(weight) * (max_norm / (norm + 1e-7)), weight.dtype());
  return {b.where(too_long, shorter, weight)};
}

constexpr DecompositionRow kNormalizationRows[] = {
    {"aten::batch_norm", batch_norm},
    {"aten::native_batch_norm", native_batch_norm},
    {"aten::_native_batch_norm_legit", native_batch_norm_updating},
    {"aten::_native_batch_norm_legit.no_stats", native_batch_norm},
    {"aten::_native_batch_norm_legit_functional", native_batch_norm_updating},
    {"aten::_native_batch_norm_legit_no_training", native_batch_norm_no_training},
    {"aten::_batch_norm_with_update", batch_norm_with_update},
    {"aten::_batch_norm_with_update_functional", batch_norm_with_update},
    {"aten::_batch_norm_no_update", batch_norm_no_update},
    {"aten::instance_norm", instance_norm},
    {"aten::layer_norm", layer_norm},
    {"aten::native_layer_norm", native_layer_norm},
    {"aten::rms_norm", rms_norm},
    {"aten::_fused_rms_norm", fused_rms_norm},
    {"aten::group_norm", group_norm},
    {"aten::native_group_norm", native_group_norm},
    {"aten::_weight_norm", weight_norm},
    {"aten::_weight_norm_interface", weight_norm_interface},
    {"aten::embedding_renorm", embedding_renorm},
};

}  // namespace

std::span<const DecompositionRow> normalization_rows() { return kNormalizationRows; }

}  // namespace toroid
