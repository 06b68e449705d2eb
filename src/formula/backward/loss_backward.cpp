#include "formula/backward/loss_backward.h"

#include "base/error.h"
#include "formula/basics/channels.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// inner(z) between -bound and bound, and for NaN; -outer below and outer above.
Tensor bent_slope(Tensor z, double bound, double outer, Tensor inner) {
  return where(z <= -bound, number_like(z, -outer), where(z >= bound, number_like(z, outer), inner));
}

}  // namespace

// ---- by element -----------------------------------------------------------------------------------------------------

Tensor mse_loss_slope(Tensor x, Tensor t) { return 2.0 * (x - t); }

Tensor smooth_l1_loss_slope(Tensor x, Tensor t, double beta) {
  Tensor z = x - t;
  return bent_slope(z, beta, 1, z / beta);
}

Tensor huber_loss_slope(Tensor x, Tensor t, double delta) {
  Tensor z = x - t;
  return bent_slope(z, delta, delta, z);
}

Tensor soft_margin_loss_slope(Tensor x, Tensor t) { return -t * sigmoid(-t * x); }

Tensor binary_cross_entropy_slope(Tensor x, Tensor t, Tensor weight) {
  Tensor slope = (x - t) / maximum((1.0 - x) * x, 1e-12);
  return weight.defined() ? slope * weight : slope;
}

Tensor through_reduction(Tensor slope, Tensor grad, LossReduction reduction, sym::Expr count) {
  Tensor gradient = slope * grad;
  return reduction == LossReduction::Mean ? gradient / number_like(gradient, Scalar(count)) : gradient;
}

// ---- over classes ---------------------------------------------------------------------------------------------------

Tensor nll_loss_backward(Tensor grad_out, Tensor x, Tensor classes, Tensor weight, Tensor total_weight, LossReduction reduction,
                         sym::Expr ignore_index) {
  Builder& b = x.builder();
  Tensor grad = wide(grad_out), class_weight = wide(weight);
  const int64_t dim = x.rank() == 1 ? 0 : 1;
  Tensor target = b.unsqueeze(b.cast(classes, DType::I64), dim);
  if (reduction == LossReduction::Mean) grad = grad / wide(total_weight);
  if (grad.rank() > 0) grad = b.unsqueeze(grad, dim);
  Tensor class_at = positions(b, x.size(dim), dim, x.rank());
  if (class_weight.defined()) grad = grad * along_dim_of(x, dim, class_weight);
  Tensor is_target = eq(class_at, target) & b.binary(ScalarOp::Ne, target, Scalar(ignore_index));
  return b.cast(b.expand(where(is_target, -grad, 0), x.sizes()), x.dtype());
}

namespace {

// The gradient of each row's loss, [N, 1] or rank 0; a mean is over rows and classes, a row's loss over classes.
Tensor row_gradient(Tensor grad_out, Tensor rows, LossReduction reduction) {
  Builder& b = rows.builder();
  Tensor grad = wide(grad_out);
  if (grad.rank() > 0) grad = b.reshape(grad, {grad.numel(), 1});
  grad = grad / number_like(grad, Scalar(rows.size(1)));
  return reduction == LossReduction::Mean ? grad / number_like(grad, Scalar(rows.size(0))) : grad;
}

}  // namespace

Tensor multi_margin_loss_backward(Tensor grad, Tensor self, Tensor classes, const Scalar& p, const Scalar& margin, Tensor weight,
                                  LossReduction reduction) {
  Builder& b = self.builder();
  Tensor x = as_rows(wide(self));
  Tensor target = b.reshape(b.cast(classes, DType::I64), {x.size(0), 1});
  if (!is_number(p, 1) && !is_number(p, 2)) {
    throw Error(ErrorKind::InvalidModel, "multi_margin_loss_backward is for p = 1 and p = 2");
  }
  Tensor is_own = eq(target, b.arange(x.size(1)));
  Tensor excess = x - b.gather(x, index_along(target, 1)) + number_like(x, margin);
  Tensor push = is_number(p, 1) ? where(excess > 0, number_like(x, 1.0), 0) : 2.0 * maximum(excess, 0);
  push = where(is_own, 0, push);
  if (weight.defined()) push = push * b.gather(wide(weight), {target});
  Tensor pull = b.keep(b.sum(push, {1}), {1});
  Tensor gradient = where(is_own, -pull, push) * row_gradient(grad, x, reduction);
  return b.cast(b.reshape(gradient, self.sizes()), self.dtype());
}

Tensor multilabel_margin_loss_backward(Tensor grad, Tensor self, Tensor classes, Tensor targets, LossReduction reduction) {
  Builder& b = self.builder();
  Tensor x = as_rows(wide(self)), target = as_rows(b.cast(classes, DType::I64));
  Tensor is_target = b.cast(as_rows(targets), DType::Bool);
  Tensor listed = b.scan(ScanOp::Min, target, 1)[0] >= 0;  // entries before the first negative one
  Tensor safe = where(listed, target, 0);
  Tensor own = b.gather(x, index_along(safe, 1));                    // [N, entry]
  Tensor close = b.unsqueeze(x, 1) - b.unsqueeze(own, 2) + 1.0 > 0;  // [N, entry, class]
  Tensor counts = b.unsqueeze(listed, 2) & !b.unsqueeze(is_target, 1) & close;
  Tensor pushes = b.cast(counts, x.dtype());
  Tensor pushed = b.sum(pushes, {1}), pull = b.sum(pushes, {2});  // [N, class], [N, entry]
  Tensor names = eq(b.unsqueeze(safe, 2), b.arange(x.size(1)));   // [N, entry, class]
  Tensor pulled = b.sum(where(names, b.unsqueeze(pull, 2), 0), {1});
  Tensor gradient = (pushed - pulled) * row_gradient(grad, x, reduction);
  return b.cast(b.reshape(gradient, self.sizes()), self.dtype());
}

}  // namespace toroid::formula
