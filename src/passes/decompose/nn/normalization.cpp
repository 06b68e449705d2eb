// Batch, layer, group, instance and RMS normalisation.
//
// All of them are (x - mean) * rsqrt(variance + eps), then a scale and a shift, over different dims. Mean and variance
// come from one MeanM2 reduction, computed in F32 for reduced floats and rounded once at the end. Batch normalisation goes on from it in F64. Rows do
// not: of 768 elements they would take a sixth longer, and PyTorch's are no more exact.
#include <limits>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/nn/normalization.h"

namespace toroid {
namespace {

// What x becomes, and the two numbers of each row that it takes, in x's dtype.
struct Normalized {
  Tensor y, mean, inverse_deviation;
};
Normalized normalized(Tensor x, const Moments& m, double eps) {
  Builder& b = x.builder();
  const Tensor mean = b.cast(m.mean, x.dtype()), inverse = b.cast(inverse_deviation(m.variance, eps), x.dtype());
  return {(x - mean) * inverse, mean, inverse};
}

Tensor affine(Tensor y, Tensor weight, Tensor bias) {
  if (weight.defined()) y = y * wide(weight);
  if (bias.defined()) y = y + wide(bias);
  return y;
}

// ---- batch norm -----------------------------------------------------------------------------------------------------

struct BatchNorm {
  Tensor y;
  Tensor mean, inverse_deviation;         // of the batch; undefined outside training
  Tensor running_mean, running_variance;  // updated; undefined outside training or without running statistics
};

BatchNorm normalize_batch(Decomposer& d, const Args& a, bool training, double momentum) {
  Builder& b = d.b;
  Tensor input = a.tensor("input"), x = wide(input);
  const int64_t rank = x.rank();
  if (input.numel().is_const(0)) {
    return {.y = input, .mean = {}, .inverse_deviation = {}, .running_mean = {}, .running_variance = {}};
  }
  if (rank < 2) throw Error(ErrorKind::InvalidModel, "batch_norm needs a channel dim");
  Tensor weight = per_channel(a.optional_tensor("weight"), rank), bias = per_channel(a.optional_tensor("bias"), rank);
  Tensor running_mean = a.optional_tensor("running_mean"), running_var = a.optional_tensor("running_var");
  const double eps = a.number("eps");
  if (!training) {
    // As a scale and a shift per channel, which a preceding convolution can absorb.
    if (!running_mean.defined() || !running_var.defined()) {
      throw Error(ErrorKind::InvalidModel, "batch_norm outside training needs running statistics");
    }
    Tensor scale = inverse_deviation(per_channel(wide(running_var), rank), eps);
    if (weight.defined()) scale = scale * wide(weight);
    Tensor shift = -(per_channel(wide(running_mean), rank) * scale);
    if (bias.defined()) shift = shift + wide(bias);
    return {.y = b.cast(x * scale + shift, input.dtype()), .mean = {}, .inverse_deviation = {}, .running_mean = {}, .running_variance = {}};
  }
  // The mean's rounding would be the largest error far from zero: the shift takes it back.
  const Moments m = moments(x, all_but(rank, 1), true);
  const Normalized n = normalized(x, m, eps);
  const Tensor shift = b.cast((b.cast(n.mean, DType::F64) - m.mean) * inverse_deviation(m.variance, eps), x.dtype());
  BatchNorm result;
  result.y = b.cast(affine(n.y + shift, weight, bias), input.dtype());
  const Sizes channels = {x.size(1)};
  result.mean = b.reshape(n.mean, channels);
  result.inverse_deviation = b.reshape(n.inverse_deviation, channels);
  auto updated = [&](Tensor running, Tensor batch) {
    return b.cast(b.cast(running, DType::F64) * (1 - momentum) + batch * momentum, running.dtype());
  };
  if (running_mean.defined()) result.running_mean = updated(running_mean, b.reshape(m.mean, channels));
  if (running_var.defined()) {
    // Running variances are unbiased.
    Tensor squares = b.binary(ScalarOp::Mul, b.reshape(m.variance, channels), Scalar(m.count));
    result.running_variance = updated(running_var, b.binary(ScalarOp::Div, squares, Scalar(m.count - 1)));
  }
  return result;
}

// The schemas of batch_norm and native_batch_norm hide that training updates the running statistics.
void write_running(Decomposer& d, const BatchNorm& norm) {
  if (norm.running_mean.defined()) d.write("running_mean", norm.running_mean);
  if (norm.running_variance.defined()) d.write("running_var", norm.running_variance);
}

std::vector<Tensor> batch_norm(Decomposer& d, const Args& a) {
  const BatchNorm norm = normalize_batch(d, a, a.flag("training"), a.number("momentum"));
  write_running(d, norm);
  return {norm.y};
}

// (y, mean, 1/deviation): the last two are empty outside training.
std::vector<Tensor> with_statistics(Decomposer& d, const BatchNorm& norm, DType dtype) {
  Tensor empty = d.b.full({0}, dtype, 0.0);
  Tensor mean = norm.mean.defined() ? norm.mean : empty;
  Tensor inverse = norm.inverse_deviation.defined() ? norm.inverse_deviation : empty;
  return {norm.y, as_recorded(d, 1, mean), as_recorded(d, 2, inverse)};
}

std::vector<Tensor> native_batch_norm(Decomposer& d, const Args& a) {
  const BatchNorm norm = normalize_batch(d, a, a.flag("training"), a.number("momentum"));
  write_running(d, norm);
  return with_statistics(d, norm, compute_dtype(norm.y.dtype()));
}

std::vector<Tensor> native_batch_norm_no_training(Decomposer& d, const Args& a) {
  const BatchNorm norm = normalize_batch(d, a, false, a.number("momentum"));
  return with_statistics(d, norm, compute_dtype(norm.y.dtype()));
}

// What the running statistics become, as further results.
void append_running(const Args& a, const BatchNorm& norm, std::vector<Tensor>& results) {
  results.push_back(norm.running_mean.defined() ? norm.running_mean : a.tensor("running_mean"));
  results.push_back(norm.running_variance.defined() ? norm.running_variance : a.tensor("running_var"));
}

std::vector<Tensor> native_batch_norm_updating(Decomposer& d, const Args& a) {
  const BatchNorm norm = normalize_batch(d, a, a.flag("training"), a.number("momentum"));
  std::vector<Tensor> results = with_statistics(d, norm, compute_dtype(norm.y.dtype()));
  append_running(a, norm, results);
  return results;
}

std::vector<Tensor> batch_norm_with_update(Decomposer& d, const Args& a) {
  const BatchNorm norm = normalize_batch(d, a, true, a.number("momentum"));
  std::vector<Tensor> results = with_statistics(d, norm, compute_dtype(norm.y.dtype()));
  results.push_back(d.b.full({0}, DType::U8, sym::Expr(0)));  // the space cuDNN would reserve
  append_running(a, norm, results);
  return results;
}

std::vector<Tensor> batch_norm_no_update(Decomposer& d, const Args& a) {
  const BatchNorm norm = normalize_batch(d, a, !a.has("running_mean"), a.number("momentum"));
  std::vector<Tensor> results = with_statistics(d, norm, compute_dtype(norm.y.dtype()));
  results.push_back(d.b.full({0}, DType::U8, sym::Expr(0)));
  return results;
}

// Each sample's channels are normalised alone; without input statistics this is batch_norm outside training.
std::vector<Tensor> instance_norm(Decomposer& d, const Args& a) {
  if (!a.flag("use_input_stats")) return {normalize_batch(d, a, false, a.number("momentum")).y};
  Tensor x = a.tensor_of_rank("input", 2);
  Dims dims = all_but(x.rank(), 1);
  dims.erase(dims.begin());
  Tensor y = normalized(wide(x), moments(wide(x), dims), a.number("eps")).y;
  y = affine(y, per_channel(a.optional_tensor("weight"), x.rank()), per_channel(a.optional_tensor("bias"), x.rank()));
  return {d.b.cast(y, x.dtype())};
}

// ---- layer, RMS and group norm --------------------------------------------------------------------------------------

std::vector<Tensor> native_layer_norm(Decomposer& d, const Args& a) {
  Tensor input = a.tensor("input"), x = wide(input);
  const Normalized n = normalized(x, moments(x, trailing(x, a.integers("normalized_shape").size())), a.number("eps"));
  Tensor y = affine(n.y, a.optional_tensor("weight"), a.optional_tensor("bias"));
  return {d.b.cast(y, input.dtype()), as_recorded(d, 1, n.mean), as_recorded(d, 2, n.inverse_deviation)};
}

std::vector<Tensor> layer_norm(Decomposer& d, const Args& a) { return {native_layer_norm(d, a)[0]}; }

std::vector<Tensor> fused_rms_norm(Decomposer& d, const Args& a) {
  Tensor input = a.tensor("input"), x = wide(input);
  const Dims dims = trailing(x, a.integers("normalized_shape").size());
  const double epsilon = x.dtype() == DType::F64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  sym::Expr count = 1;
  for (int64_t dim : dims) count = count * x.size(dim);
  Tensor mean_square = d.b.keep(d.b.binary(ScalarOp::Div, d.b.sum(x * x, dims), Scalar(count)), dims);
  Tensor inverse = inverse_deviation(mean_square, a.has("eps") ? a.number("eps") : epsilon);
  return {d.b.cast(affine(x * inverse, a.optional_tensor("weight"), {}), input.dtype()), as_recorded(d, 1, inverse)};
}

std::vector<Tensor> rms_norm(Decomposer& d, const Args& a) { return {fused_rms_norm(d, a)[0]}; }

// [N, C, …] with statistics over each of `groups` runs of channels.
std::vector<Tensor> normalize_groups(Decomposer& d, Tensor input, sym::Expr groups, const Args& a) {
  Tensor x = wide(input);
  Tensor by_group = split_channels(x, groups);
  Dims dims;
  for (int64_t dim = 2; dim < by_group.rank(); ++dim) dims.push_back(dim);
  const Normalized n = normalized(by_group, moments(by_group, dims), a.number("eps"));
  Tensor y = d.b.reshape(n.y, x.sizes());
  y = affine(y, per_channel(a.optional_tensor("weight"), x.rank()), per_channel(a.optional_tensor("bias"), x.rank()));
  const Sizes per_group = {x.size(0), groups};
  return {d.b.cast(y, input.dtype()), as_recorded(d, 1, d.b.reshape(n.mean, per_group)),
          as_recorded(d, 2, d.b.reshape(n.inverse_deviation, per_group))};
}

std::vector<Tensor> group_norm(Decomposer& d, const Args& a) {
  return {normalize_groups(d, a.tensor("input"), a.integer("num_groups"), a)[0]};
}

std::vector<Tensor> native_group_norm(Decomposer& d, const Args& a) {
  return normalize_groups(d, a.tensor("input"), a.integer("group"), a);
}

// ---- norms of parameters --------------------------------------------------------------------------------------------

// v * g / |v|, norms over all dims but one.
std::vector<Tensor> weight_norm_interface(Decomposer& d, const Args& a) {
  Tensor v = a.tensor("v"), g = a.tensor("g");
  const Dims dims = all_but(v.rank(), d.b.wrap_dim(a.constant("dim"), v.rank()));
  Tensor square = d.b.keep(d.b.sum(wide(v) * wide(v), dims), dims);
  Tensor norm = d.b.unary(ScalarOp::Sqrt, square);
  return {d.b.cast(wide(v) * (wide(g) / norm), v.dtype()), as_recorded(d, 1, norm)};
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

constexpr DecompositionRow kRows[] = {
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

std::span<const DecompositionRow> normalization_rows() { return kRows; }

}  // namespace toroid
