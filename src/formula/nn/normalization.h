// Batch, layer, group, instance and RMS normalisation.
//
// All of them are (x - mean) / sqrt(variance + eps), then a scale by `weight` and a shift by `bias`, either of which may be undefined; they
// differ in the dims that mean and variance are over. The variance divides by the number of elements.
//
// x has any floating dtype. The result has x's shape and dtype, is computed in F32 where x is F16 or BF16, and rounded once. Weights,
// biases and statistics may have other floating dtypes. Channels are dim 1 of [N, C, …]; per-channel vectors are [C].
#pragma once

#include <optional>

#include "graph/builder.h"

namespace toroid::formula {

// A result with what it was computed from, in the dtype x was computed in; the reduced dims are kept with size 1.
struct Normalized {
  Tensor y, mean, inverse_deviation;
};

// ---- batch norm (Ioffe and Szegedy, 2015) -----------------------------------------------------------------------------

// In inference: with the statistics [C] of training, as a scale and a shift per channel, which a preceding convolution can absorb. x
// without elements is the result itself. Throws Error{InvalidModel} when x has no channel dim or a statistic is undefined.
Tensor batch_norm(Tensor x, Tensor mean, Tensor variance, Tensor weight, Tensor bias, double eps);

// What training makes.
struct BatchNorm {
  Tensor y;
  Tensor mean, inverse_deviation;         // [C], of the batch; undefined for x without elements
  Tensor running_mean, running_variance;  // [C], updated; undefined where there were none, and for x without elements
};

// In training: with the statistics of the batch, over all dims but channels. The running ones, which may be undefined, move by `momentum`
// towards them: running*(1 - momentum) + batch*momentum, in their own dtype. The variance is unbiased there: it divides by one less.
// Statistics are computed in F64. Throws Error{InvalidModel} when x has no channel dim.
BatchNorm batch_norm_in_training(Tensor x, Tensor running_mean, Tensor running_variance, Tensor weight, Tensor bias, double momentum,
                                 double eps);

// ---- statistics of each sample ----------------------------------------------------------------------------------------

// Over the last `count` dims, which weight and bias have too (Ba et al., 2016).
Normalized layer_norm(Tensor x, size_t count, Tensor weight, Tensor bias, double eps);

// Over each of `groups` runs of channels and the dims behind them (Wu and He, 2018). Mean and inverse deviation are [N, groups, 1, 1…].
Normalized group_norm(Tensor x, sym::Expr groups, Tensor weight, Tensor bias, double eps);

// Over the dims behind the channels (Ulyanov et al., 2016). Throws Error{InvalidModel} when x has no channel dim.
Tensor instance_norm(Tensor x, Tensor weight, Tensor bias, double eps);

// x / sqrt(mean(x^2) + eps) * weight over the last `count` dims, no mean taken off (Zhang and Sennrich, 2019). Without an `eps` it is the
// machine epsilon of the dtype it is computed in. The `mean` of the result is undefined.
Normalized rms_norm(Tensor x, size_t count, Tensor weight, std::optional<double> eps);

// ---- norms of parameters ----------------------------------------------------------------------------------------------

// v * g / |v| (Salimans and Kingma, 2016): Euclidean norms over all dims but `dim`, kept with size 1 as g has them.
struct WeightNorm {
  Tensor weight;  // as v
  Tensor norm;    // as g, in the dtype v was computed in
};
WeightNorm weight_norm(Tensor v, Tensor g, int64_t dim);

}  // namespace toroid::formula
