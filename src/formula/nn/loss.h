// Losses between a prediction and a target, and margin losses.
//
// Losses of elements take F32 or F64 tensors of one dtype (wide() of others), which broadcast, and give a loss for each element; `reduced`
// ends them. Weights, wide too, multiply the losses and may be undefined.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// How losses end: none, mean or sum over all elements.
enum class LossReduction { None = 0, Mean = 1, Sum = 2 };
Tensor reduced(Tensor loss, LossReduction reduction);

// ---- by element: x the prediction, t the target -----------------------------------------------------------------------

Tensor mse_loss(Tensor x, Tensor t);                     // (x - t)^2
Tensor l1_loss(Tensor x, Tensor t);                      // |x - t|
Tensor smooth_l1_loss(Tensor x, Tensor t, double beta);  // (x - t)^2/(2 beta) below beta, then |x - t| - beta/2 (Girshick, 2015)
Tensor huber_loss(Tensor x, Tensor t, double delta);     // (x - t)^2/2 up to delta, then delta (|x - t| - delta/2) (Huber, 1964)
Tensor soft_margin_loss(Tensor x, Tensor t);             // log(1 + e^(-t x)) for targets -1 and 1

// -t log(x) - (1 - t) log(1 - x) for probabilities x; logarithms are kept above -100.
Tensor binary_cross_entropy(Tensor x, Tensor t, Tensor weight);
// … of sigmoid(x), without overflow. `positive_weight` multiplies the loss of what is positive in t.
Tensor binary_cross_entropy_with_logits(Tensor x, Tensor t, Tensor weight, Tensor positive_weight);

// ---- over classes: x [N, C] or [C], of any floating dtype -------------------------------------------------------------

// [C] or a single number as [1, C].
Tensor as_rows(Tensor x);

// The mean over the other classes of max(x[other] - x[target] + margin, 0)^p. `target` [N] or a number of integers, weight [C] or
// undefined. [N] reduced, in x's dtype. Throws Error{InvalidModel} unless p is 1 or 2.
Tensor multi_margin_loss(Tensor x, Tensor target, const Scalar& p, const Scalar& margin, Tensor weight, LossReduction reduction);

// Each row of `target`, of x's shape, lists classes up to the first negative entry: each should exceed every class that is not listed by 1.
struct MultilabelMarginLoss {
  Tensor loss;       // [N] reduced, in x's dtype
  Tensor is_target;  // as target, in x's dtype: 1 for classes that are listed
};
MultilabelMarginLoss multilabel_margin_loss(Tensor x, Tensor target, LossReduction reduction);

}  // namespace toroid::formula
