// Negative log likelihood and cross entropy over classes.
//
// x is [C], [N, C] or [N, C, d…] of any floating dtype, which the losses have; they are computed in F32 for F16 and BF16.
#pragma once

#include "formula/nn/loss.h"

namespace toroid::formula {

struct CrossEntropyOptions {
  Tensor class_weight;  // [C], of each target's loss; may be undefined
  // A mean divides by the weights of the targets; it is NaN when nothing counts.
  LossReduction reduction = LossReduction::Mean;
  sym::Expr ignored = -100;    // targets of this class count nothing
  double label_smoothing = 0;  // how much of each target's weight moves to all classes evenly (Szegedy et al., 2016)
};

// -x[target] for logarithms of probabilities x and integers `target`, x's shape without classes. Smoothing is not read.
struct NllLoss {
  Tensor loss, total_weight;  // the weight that a mean divides by; 0 without reduction
};
NllLoss nll_loss(Tensor x, Tensor target, const CrossEntropyOptions& options);

// nll_loss of log_softmax(x); or, for floating targets of x's shape, -sum over classes of target log_softmax(x). One pass over each row:
//
//   loss[i] = log(sum_c exp(x[i, c] - m[i])) - (x[i, target[i]] - m[i])      m[i] = max_c x[i, c]
Tensor cross_entropy(Tensor x, Tensor target, const CrossEntropyOptions& options);

}  // namespace toroid::formula
