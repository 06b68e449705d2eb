#include "formula/backward/normalization_backward.h"

#include "formula/basics/channels.h"
#include "formula/basics/moments.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

Tensor mean_keeping(Tensor x, const Dims& dims) { return x.builder().keep(x.builder().mean(x, dims), dims); }

// ---- batch norm -----------------------------------------------------------------------------------------------------

struct BatchStatistics {
  Tensor mean, inverse_deviation;  // [C], wide
  bool of_batch;                   // they depend on x
};

NormGradients batch_norm_gradients(Tensor grad_out, Tensor input, Tensor weight, const BatchStatistics& statistics) {
  Builder& b = input.builder();
  Tensor x = wide(input), grad = wide(grad_out);
  const int64_t rank = x.rank();
  const Dims dims = all_but(rank, 1);
  Tensor inverse = per_channel(statistics.inverse_deviation, rank);
  Tensor normalized = (x - per_channel(statistics.mean, rank)) * inverse;
  Tensor grad_bias = b.sum(grad, dims), grad_weight = b.sum(grad * normalized, dims);
  Tensor centred = grad;
  if (statistics.of_batch) {
    const sym::Expr count = count_along(x, dims);
    auto mean = [&](Tensor sum) { return per_channel(b.binary(ScalarOp::Div, sum, Scalar(count)), rank); };
    centred = grad - mean(grad_bias) - normalized * mean(grad_weight);
  }
  Tensor scale = weight.defined() ? inverse * per_channel(wide(weight), rank) : inverse;
  return {b.cast(centred * scale, input.dtype()), grad_weight, grad_bias};
}

}  // namespace

NormGradients batch_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor mean, Tensor variance, double eps) {
  return batch_norm_gradients(grad, x, weight, {wide(mean), inverse_deviation(wide(variance), eps), false});
}

NormGradients batch_norm_in_training_backward(Tensor grad, Tensor x, Tensor weight, Tensor mean, Tensor inverse) {
  return batch_norm_gradients(grad, x, weight, {wide(mean), wide(inverse), true});
}

// ---- statistics of each sample --------------------------------------------------------------------------------------

namespace {

Tensor sum_outer(Tensor x, size_t inner, DType dtype) {
  Dims outer;
  for (int64_t dim = 0; dim < x.rank() - static_cast<int64_t>(inner); ++dim) outer.push_back(dim);
  return x.builder().cast(outer.empty() ? x : x.builder().sum(x, outer), dtype);
}

}  // namespace

NormGradients layer_norm_backward(Tensor grad_out, Tensor input, size_t count, Tensor weight, Tensor mean, Tensor inverse_deviation,
                                  const std::array<bool, 3>& wanted) {
  Tensor x = wide(input), grad = wide(grad_out), inverse = wide(inverse_deviation);
  weight = wide(weight);
  const Dims dims = trailing(x, count);
  Tensor normalized = (x - wide(mean)) * inverse;
  NormGradients gradients;
  if (wanted[0]) {
    Tensor g = weight.defined() ? grad * weight : grad;
    Tensor centred = g - mean_keeping(g, dims) - normalized * mean_keeping(g * normalized, dims);
    gradients.x = x.builder().cast(centred * inverse, input.dtype());
  }
  if (wanted[1]) gradients.weight = sum_outer(grad * normalized, count, input.dtype());
  if (wanted[2]) gradients.bias = sum_outer(grad, count, input.dtype());
  return gradients;
}

NormGradients rms_norm_backward(Tensor grad_out, Tensor input, size_t count, Tensor weight, Tensor inverse_deviation,
                                const std::array<bool, 2>& wanted) {
  Tensor grad = wide(grad_out), inverse = wide(inverse_deviation);
  weight = wide(weight);
  Tensor normalized = wide(input) * inverse;
  NormGradients gradients;
  if (wanted[0]) {
    Tensor g = weight.defined() ? grad * weight : grad;
    Tensor slope = g - normalized * mean_keeping(g * normalized, trailing(input, count));
    gradients.x = input.builder().cast(slope * inverse, input.dtype());
  }
  if (wanted[1]) gradients.weight = sum_outer(grad * normalized, count, input.dtype());
  return gradients;
}

NormGradients group_norm_backward(Tensor grad_out, Tensor input, sym::Expr groups, Tensor weight, Tensor mean, Tensor inverse_deviation,
                                  const std::array<bool, 3>& wanted) {
  Builder& b = input.builder();
  Tensor grad = wide(grad_out);
  weight = wide(weight);
  Tensor x = split_channels(wide(input), groups);
  Dims dims;
  for (int64_t dim = 2; dim < x.rank(); ++dim) dims.push_back(dim);
  auto per_group = [&](Tensor statistic) {
    Sizes sizes(x.sizes().size(), 1);
    sizes[0] = x.size(0);
    sizes[1] = groups;
    return b.reshape(wide(statistic), sizes);
  };
  Tensor inverse = per_group(inverse_deviation);
  Tensor normalized = (x - per_group(mean)) * inverse;
  NormGradients gradients;
  if (wanted[0]) {
    Tensor g = split_channels(weight.defined() ? grad * per_channel(weight, input.rank()) : grad, groups);
    Tensor centred = g - mean_keeping(g, dims) - normalized * mean_keeping(g * normalized, dims);
    gradients.x = b.cast(b.reshape(centred * inverse, input.sizes()), input.dtype());
  }
  const Dims all_but_channels = all_but(input.rank(), 1);
  if (wanted[1]) {
    gradients.weight = b.cast(b.sum(grad * b.reshape(normalized, input.sizes()), all_but_channels), input.dtype());
  }
  if (wanted[2]) gradients.bias = b.cast(b.sum(grad, all_but_channels), input.dtype());
  return gradients;
}

// ---- weight norm ----------------------------------------------------------------------------------------------------

WeightNormGradients weight_norm_backward(Tensor grad_out, Tensor v, Tensor g, Tensor norms, int64_t dim) {
  Builder& b = v.builder();
  Tensor grad = wide(grad_out), norm = wide(norms);
  const Dims dims = all_but(v.rank(), b.wrap_dim(dim, v.rank()));
  Tensor along_v = grad * wide(v);
  if (!dims.empty()) along_v = b.keep(b.sum(along_v, dims), dims);
  Tensor grad_v = wide(g) / norm * (grad - wide(v) * (along_v / (norm * norm)));
  return {b.cast(grad_v, v.dtype()), b.cast(along_v / norm, g.dtype())};
}

}  // namespace toroid::formula
