// Mean and variance come from one MeanM2 reduction. Batch normalisation goes on from it in F64. Rows do not: of 768 elements they would
// take a sixth longer, and PyTorch's are no more exact.
#include "formula/nn/normalization.h"

#include <limits>

#include "base/error.h"
#include "formula/basics/channels.h"
#include "formula/basics/moments.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// What x becomes, and the two numbers of each row that it takes, in x's dtype.
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

void require_channels(Tensor x) {
  if (x.rank() < 2) throw Error(ErrorKind::InvalidModel, "batch_norm needs a channel dim");
}

}  // namespace

Tensor batch_norm(Tensor input, Tensor mean, Tensor variance, Tensor weight, Tensor bias, double eps) {
  Tensor x = wide(input);
  const int64_t rank = x.rank();
  if (input.numel().is_const(0)) return input;
  require_channels(x);
  weight = per_channel(weight, rank);
  bias = per_channel(bias, rank);
  if (!mean.defined() || !variance.defined()) {
    throw Error(ErrorKind::InvalidModel, "batch_norm outside training needs running statistics");
  }
  Tensor scale = inverse_deviation(per_channel(wide(variance), rank), eps);
  if (weight.defined()) scale = scale * wide(weight);
  Tensor shift = -(per_channel(wide(mean), rank) * scale);
  if (bias.defined()) shift = shift + wide(bias);
  return x.builder().cast(x * scale + shift, input.dtype());
}

BatchNorm batch_norm_in_training(Tensor input, Tensor running_mean, Tensor running_variance, Tensor weight, Tensor bias, double momentum,
                                 double eps) {
  Tensor x = wide(input);
  Builder& b = x.builder();
  const int64_t rank = x.rank();
  BatchNorm result;
  result.y = input;
  if (input.numel().is_const(0)) return result;
  require_channels(x);
  weight = per_channel(weight, rank);
  bias = per_channel(bias, rank);
  // The mean's rounding would be the largest error far from zero: the shift takes it back.
  const Moments m = moments(x, all_but(rank, 1), true);
  const Normalized n = normalized(x, m, eps);
  const Tensor shift = b.cast((b.cast(n.mean, DType::F64) - m.mean) * inverse_deviation(m.variance, eps), x.dtype());
  result.y = b.cast(affine(n.y + shift, weight, bias), input.dtype());
  const Sizes channels = {x.size(1)};
  result.mean = b.reshape(n.mean, channels);
  result.inverse_deviation = b.reshape(n.inverse_deviation, channels);
  auto updated = [&](Tensor running, Tensor batch) {
    return b.cast(b.cast(running, DType::F64) * (1 - momentum) + batch * momentum, running.dtype());
  };
  if (running_mean.defined()) result.running_mean = updated(running_mean, b.reshape(m.mean, channels));
  if (running_variance.defined()) {
    // Running variances are unbiased.
    Tensor squares = b.binary(ScalarOp::Mul, b.reshape(m.variance, channels), Scalar(m.count));
    result.running_variance = updated(running_variance, b.binary(ScalarOp::Div, squares, Scalar(m.count - 1)));
  }
  return result;
}

Normalized layer_norm(Tensor input, size_t count, Tensor weight, Tensor bias, double eps) {
  Tensor x = wide(input);
  Normalized n = normalized(x, moments(x, trailing(x, count)), eps);
  n.y = x.builder().cast(affine(n.y, weight, bias), input.dtype());
  return n;
}

Normalized group_norm(Tensor input, sym::Expr groups, Tensor weight, Tensor bias, double eps) {
  Tensor x = wide(input);
  Builder& b = x.builder();
  Tensor by_group = split_channels(x, groups);
  Dims dims;
  for (int64_t dim = 2; dim < by_group.rank(); ++dim) dims.push_back(dim);
  Normalized n = normalized(by_group, moments(by_group, dims), eps);
  Tensor y = b.reshape(n.y, x.sizes());
  y = affine(y, per_channel(weight, x.rank()), per_channel(bias, x.rank()));
  n.y = b.cast(y, input.dtype());
  return n;
}

Tensor instance_norm(Tensor x, Tensor weight, Tensor bias, double eps) {
  if (x.rank() < 2) throw Error(ErrorKind::InvalidModel, "instance_norm needs a channel dim");
  Dims dims = all_but(x.rank(), 1);
  dims.erase(dims.begin());
  Tensor y = normalized(wide(x), moments(wide(x), dims), eps).y;
  y = affine(y, per_channel(weight, x.rank()), per_channel(bias, x.rank()));
  return x.builder().cast(y, x.dtype());
}

Normalized rms_norm(Tensor input, size_t count, Tensor weight, std::optional<double> eps) {
  Tensor x = wide(input);
  Builder& b = x.builder();
  const Dims dims = trailing(x, count);
  const double epsilon = x.dtype() == DType::F64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const sym::Expr elements = count_along(x, dims);
  Tensor mean_square = b.keep(b.binary(ScalarOp::Div, b.sum(x * x, dims), Scalar(elements)), dims);
  Tensor inverse = inverse_deviation(mean_square, eps.value_or(epsilon));
  return {b.cast(affine(x * inverse, weight, {}), input.dtype()), {}, inverse};
}

WeightNorm weight_norm(Tensor v, Tensor g, int64_t dim) {
  Builder& b = v.builder();
  const Dims dims = all_but(v.rank(), b.wrap_dim(dim, v.rank()));
  Tensor square = b.keep(b.sum(wide(v) * wide(v), dims), dims);
  Tensor norm = b.unary(ScalarOp::Sqrt, square);
  return {b.cast(wide(v) * (wide(g) / norm), v.dtype()), norm};
}

}  // namespace toroid::formula
