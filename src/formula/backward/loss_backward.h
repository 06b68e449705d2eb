// Gradients of losses with respect to the prediction. A mean divides the gradient of the result by the number of elements that it was taken
// over.
#pragma once

#include "formula/nn/loss.h"

namespace toroid::formula {

// ---- by element: F32 or F64 tensors of one dtype (wide() of others), x the prediction, t the target ---------------------

// The slope of each loss.
Tensor mse_loss_slope(Tensor x, Tensor t);
Tensor smooth_l1_loss_slope(Tensor x, Tensor t, double beta);
Tensor huber_loss_slope(Tensor x, Tensor t, double delta);
Tensor soft_margin_loss_slope(Tensor x, Tensor t);
Tensor binary_cross_entropy_slope(Tensor x, Tensor t, Tensor weight);  // weight may be undefined

// The gradient from slopes and `grad`, that of the reduced loss of `count` elements.
Tensor through_reduction(Tensor slope, Tensor grad, LossReduction reduction, sym::Expr count);

// ---- over classes: x, floating, is [N, C, …] or [C], and so is the gradient, of its dtype -------------------------------

// -weight of the target's class at the target's class, 0 at all others and where the target is `ignore_index`. The mean was over
// `total_weight`.
Tensor nll_loss_backward(Tensor grad, Tensor x, Tensor target, Tensor weight, Tensor total_weight, LossReduction reduction,
                         sym::Expr ignore_index);

// Each class that comes within the margin of the target's is pushed away from it. Throws Error{InvalidModel} unless p is 1 or 2.
Tensor multi_margin_loss_backward(Tensor grad, Tensor x, Tensor target, const Scalar& p, const Scalar& margin, Tensor weight,
                                  LossReduction reduction);

// Each listed class and each that is not listed, where they are closer than 1, push each other away. `is_target` is that of the loss.
Tensor multilabel_margin_loss_backward(Tensor grad, Tensor x, Tensor target, Tensor is_target, LossReduction reduction);

}  // namespace toroid::formula
