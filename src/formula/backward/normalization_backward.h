// Gradients of batch, layer, group and RMS normalisation, and of weight norm.
//
// All normalisations are h = (x - mean) / deviation, then a scale by `weight` and a shift. With g the gradient of h, and
// means over the dims that were normalised together,
//
//   dx = (g - mean(g) - h * mean(g * h)) / deviation      dweight = sum of grad * h      dbias = sum of grad
//
// Statistics that do not depend on x (running ones) or that subtract no mean (RMS) drop the terms that come from them.
// The sums read what dx reads and over the same rows, so that they run in one kernel where the scheduler finds that.
//
// `grad`, x and `weight`, which may be undefined, are floating, of any dtypes; F16 and BF16 are computed with in F32. The gradient of x has
// x's dtype.
#pragma once

#include <array>

#include "graph/builder.h"

namespace toroid::formula {

// What is not wanted is undefined.
struct NormGradients {
  Tensor x, weight, bias;
};

// ---- batch norm: weight, bias and statistics are [C], and so are their gradients, in the dtype they were computed in --------

// With the running statistics.
NormGradients batch_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor mean, Tensor variance, double eps);
// With those of the batch, as batch_norm_in_training gives them.
NormGradients batch_norm_in_training_backward(Tensor grad, Tensor x, Tensor weight, Tensor mean, Tensor inverse_deviation);

// ---- statistics of each sample, as the forward functions give them: gradients have x's dtype --------------------------------

// Over the last `count` dims.
NormGradients layer_norm_backward(Tensor grad, Tensor x, size_t count, Tensor weight, Tensor mean, Tensor inverse_deviation,
                                  const std::array<bool, 3>& wanted);
NormGradients rms_norm_backward(Tensor grad, Tensor x, size_t count, Tensor weight, Tensor inverse_deviation,
                                const std::array<bool, 2>& wanted);  // no bias
// Statistics have an element for each sample and group.
NormGradients group_norm_backward(Tensor grad, Tensor x, sym::Expr groups, Tensor weight, Tensor mean, Tensor inverse_deviation,
                                  const std::array<bool, 3>& wanted);

// ---- weight norm ------------------------------------------------------------------------------------------------------

// w = v * g / |v|, norms over all dims but one: dg = sum(dw * v) / |v|, dv = g/|v| * (dw - v * sum(dw * v) / |v|^2). Each has the dtype of
// what it is the gradient of.
struct WeightNormGradients {
  Tensor v, g;
};
WeightNormGradients weight_norm_backward(Tensor grad, Tensor v, Tensor g, Tensor norm, int64_t dim);

}  // namespace toroid::formula
