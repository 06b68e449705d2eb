#include "formula/nn/loss.h"

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {

Tensor reduced(Tensor loss, LossReduction reduction) {
  if (reduction == LossReduction::None) return loss;
  Builder& b = loss.builder();
  return reduction == LossReduction::Sum ? b.sum(loss, {}) : b.mean(loss, {});
}

Tensor mse_loss(Tensor x, Tensor t) { return square(x - t); }

Tensor l1_loss(Tensor x, Tensor t) { return abs(x - t); }

Tensor smooth_l1_loss(Tensor x, Tensor t, double beta) {
  if (beta == 0) return l1_loss(x, t);
  Tensor z = abs(x - t);
  return where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta);
}

Tensor huber_loss(Tensor x, Tensor t, double delta) {
  Tensor z = abs(x - t);
  return where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta));
}

Tensor soft_margin_loss(Tensor x, Tensor t) { return log1p(exp(-t * x)); }

Tensor binary_cross_entropy(Tensor x, Tensor t, Tensor weight) {
  // Logarithms are kept above -100, so that a sure and wrong answer costs something finite.
  Tensor z = (t - 1.0) * maximum(log1p(-x), -100) - t * maximum(log(x), -100);
  return weight.defined() ? z * weight : z;
}

Tensor binary_cross_entropy_with_logits(Tensor x, Tensor t, Tensor weight, Tensor positive_weight) {
  Tensor softplus = log1p(exp(-abs(x))) + maximum(-x, 0);  // log(1 + exp(-x)) without overflow
  if (positive_weight.defined()) softplus = softplus * ((positive_weight - 1.0) * t + 1.0);
  Tensor z = (1.0 - t) * x + softplus;
  return weight.defined() ? z * weight : z;
}

// ---- over classes ---------------------------------------------------------------------------------------------------

Tensor as_rows(Tensor x) { return x.rank() == 2 ? x : x.builder().reshape(x, {1, x.numel()}); }

namespace {

// Losses of [N, C] are [N]; those of a vector are a single number.
Tensor reduce_rows(Tensor self, Tensor loss, LossReduction reduction) {
  Builder& b = self.builder();
  if (self.rank() < 2) loss = b.reshape(loss, {});
  return b.cast(reduced(loss, reduction), self.dtype());
}

}  // namespace

Tensor multi_margin_loss(Tensor self, Tensor classes, const Scalar& p, const Scalar& margin, Tensor weight, LossReduction reduction) {
  Builder& b = self.builder();
  Tensor x = as_rows(wide(self));
  Tensor target = b.reshape(classes, {x.size(0)});
  Tensor own = b.gather(x, index_along(b.unsqueeze(target, 1), 1));
  Tensor excess = x - own + number_like(x, margin);
  excess = where(excess > 0, excess, 0);  // a NaN exceeds nothing
  if (is_number(p, 2)) {
    excess = square(excess);
  } else if (!is_number(p, 1)) {
    throw Error(ErrorKind::InvalidModel, "multi_margin_loss is for p = 1 and p = 2");
  }
  if (weight.defined()) excess = excess * b.unsqueeze(b.gather(wide(weight), {target}), 1);
  Tensor is_own = b.binary(ScalarOp::Eq, b.unsqueeze(target, 1), b.arange(x.size(1)));
  Tensor loss = b.mean(where(is_own, 0, excess), {1});
  return reduce_rows(self, loss, reduction);
}

MultilabelMarginLoss multilabel_margin_loss(Tensor self, Tensor classes, LossReduction reduction) {
  Builder& b = self.builder();
  Tensor x = as_rows(wide(self)), target = as_rows(b.cast(classes, DType::I64));
  Tensor listed = b.cast(b.scan(ScanOp::Min, target, 1)[0] >= 0, DType::Bool);
  Tensor safe = where(listed, target, 0);
  Tensor names = b.unsqueeze(listed, 2) & eq(b.unsqueeze(safe, 2), b.arange(x.size(1)));  // [N, entry, class]
  Tensor is_target = b.reduce(ReduceOp::Any, names, {1})[0];
  Tensor own = b.gather(x, index_along(safe, 1));
  Tensor excess = maximum(b.unsqueeze(x, 1) - b.unsqueeze(own, 2) + 1.0, 0);
  Tensor counts = b.unsqueeze(listed, 2) & !b.unsqueeze(is_target, 1);
  Tensor loss = b.sum(where(counts, excess, 0), {1, 2}) / number_like(x, Scalar(x.size(1)));
  return {reduce_rows(self, loss, reduction), b.cast(b.reshape(is_target, classes.sizes()), self.dtype())};
}

}  // namespace toroid::formula
