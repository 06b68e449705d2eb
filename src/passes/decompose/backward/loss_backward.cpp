// Gradients of losses with respect to the prediction. A mean divides the gradient of the result by the number of
// elements that it was taken over.
#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/nn/loss_reduction.h"

namespace toroid {
namespace {

// grad_output * f(self, target) element by element; a mean is over self's elements.
template <class F>
std::vector<Tensor> elementwise_gradient(Decomposer& d, const Args& a, F f) {
  const DType dtype = as_floating(promoted_dtype(a, {"grad_output", "self", "target"}));
  const bool is_mean = loss_reduction(a) == formula::LossReduction::Mean;
  const sym::Expr count = a.tensor("self").numel();
  auto gradient = [&](Tensor grad, Tensor x, Tensor target) {
    Tensor slope = f(x, target) * grad;
    return is_mean ? slope / number_like(slope, Scalar(count)) : slope;
  };
  return combine(d, a, dtype, gradient, "grad_output", "self", "target");
}

std::vector<Tensor> mse_loss_backward(Decomposer& d, const Args& a) {
  return elementwise_gradient(d, a, [](Tensor x, Tensor target) { return 2.0 * (x - target); });
}

Tensor sign_of(Tensor x) { return apply(ScalarOp::Sign, x); }

std::vector<Tensor> smooth_l1_loss_backward(Decomposer& d, const Args& a) {
  const double beta = a.number("beta");
  return elementwise_gradient(d, a, [beta](Tensor x, Tensor target) {
    Tensor z = x - target;
    return beta == 0 ? sign_of(z) : where(abs(z) < beta, z / beta, sign_of(z));
  });
}

std::vector<Tensor> huber_loss_backward(Decomposer& d, const Args& a) {
  const double delta = a.number("delta");
  return elementwise_gradient(d, a, [delta](Tensor x, Tensor target) {
    Tensor z = x - target;
    return where(abs(z) <= delta, z, sign_of(z) * delta);
  });
}

std::vector<Tensor> soft_margin_loss_backward(Decomposer& d, const Args& a) {
  return elementwise_gradient(d, a, [](Tensor x, Tensor target) { return -target * sigmoid(-target * x); });
}

std::vector<Tensor> binary_cross_entropy_backward(Decomposer& d, const Args& a) {
  Tensor weight = wide(a.optional_tensor("weight"));
  return elementwise_gradient(d, a, [&](Tensor x, Tensor target) {
    Tensor slope = (x - target) / maximum((1.0 - x) * x, 1e-12);
    return weight.defined() ? slope * weight : slope;
  });
}

// ---- classes --------------------------------------------------------------------------------------------------------

// -weight of the target's class at the target's class, zero at all others.
std::vector<Tensor> nll_loss_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), grad = wide(a.tensor("grad_output")), class_weight = wide(a.optional_tensor("weight"));
  const int64_t dim = x.rank() == 1 ? 0 : 1;
  Tensor target = b.unsqueeze(b.cast(a.tensor("target"), DType::I64), dim);
  if (loss_reduction(a) == formula::LossReduction::Mean) grad = grad / wide(a.tensor("total_weight"));
  if (grad.rank() > 0) grad = b.unsqueeze(grad, dim);
  Tensor classes = positions(b, x.size(dim), dim, x.rank());
  if (class_weight.defined()) {
    Sizes sizes(x.sizes().size(), 1);
    sizes[static_cast<size_t>(dim)] = x.size(dim);
    grad = grad * b.reshape(class_weight, sizes);
  }
  Tensor is_target = eq(classes, target) & b.binary(ScalarOp::Ne, target, Scalar(a.integer("ignore_index")));
  return {b.cast(b.expand(where(is_target, -grad, 0), x.sizes()), x.dtype())};
}

// [C] or a single number as [1, C].
Tensor as_rows(Tensor x) { return x.rank() == 2 ? x : x.builder().reshape(x, {1, x.numel()}); }

// The gradient of each row's loss, [N, 1] or rank 0; a mean is over rows and classes, a row's loss over classes.
Tensor row_gradient(const Args& a, Tensor rows) {
  Builder& b = rows.builder();
  Tensor grad = wide(a.tensor("grad_output"));
  if (grad.rank() > 0) grad = b.reshape(grad, {grad.numel(), 1});
  grad = grad / number_like(grad, Scalar(rows.size(1)));
  return loss_reduction(a) == formula::LossReduction::Mean ? grad / number_like(grad, Scalar(rows.size(0))) : grad;
}

// Each class that comes within the margin of the target's is pushed away from it.
std::vector<Tensor> multi_margin_loss_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self"), x = as_rows(wide(self));
  Tensor target = b.reshape(b.cast(a.tensor("target"), DType::I64), {x.size(0), 1});
  const Scalar p = a.scalar("p");
  if (!is_number(p, 1) && !is_number(p, 2)) {
    throw Error(ErrorKind::InvalidModel, "multi_margin_loss_backward is for p = 1 and p = 2");
  }
  Tensor is_own = eq(target, b.arange(x.size(1)));
  Tensor excess = x - b.gather(x, index_along(target, 1)) + number_like(x, a.scalar("margin"));
  Tensor push = is_number(p, 1) ? where(excess > 0, number_like(x, 1.0), 0) : 2.0 * maximum(excess, 0);
  push = where(is_own, 0, push);
  if (a.has("weight")) push = push * b.gather(wide(a.tensor("weight")), {target});
  Tensor pull = b.keep(b.sum(push, {1}), {1});
  Tensor gradient = where(is_own, -pull, push) * row_gradient(a, x);
  return {b.cast(b.reshape(gradient, self.sizes()), self.dtype())};
}

// Each listed class and each that is not listed, where they are closer than 1, push each other away.
std::vector<Tensor> multilabel_margin_loss_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self"), x = as_rows(wide(self));
  Tensor target = as_rows(b.cast(a.tensor("target"), DType::I64));
  Tensor is_target = b.cast(as_rows(a.tensor("is_target")), DType::Bool);
  Tensor listed = b.scan(ScanOp::Min, target, 1)[0] >= 0;  // entries before the first negative one
  Tensor safe = where(listed, target, 0);
  Tensor own = b.gather(x, index_along(safe, 1));                    // [N, entry]
  Tensor close = b.unsqueeze(x, 1) - b.unsqueeze(own, 2) + 1.0 > 0;  // [N, entry, class]
  Tensor counts = b.unsqueeze(listed, 2) & !b.unsqueeze(is_target, 1) & close;
  Tensor pushes = b.cast(counts, x.dtype());
  Tensor pushed = b.sum(pushes, {1}), pull = b.sum(pushes, {2});  // [N, class], [N, entry]
  Tensor names = eq(b.unsqueeze(safe, 2), b.arange(x.size(1)));   // [N, entry, class]
  Tensor pulled = b.sum(where(names, b.unsqueeze(pull, 2), 0), {1});
  Tensor gradient = (pushed - pulled) * row_gradient(a, x);
  return {b.cast(b.reshape(gradient, self.sizes()), self.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::mse_loss_backward", mse_loss_backward},
    {"aten::smooth_l1_loss_backward", smooth_l1_loss_backward},
    {"aten::huber_loss_backward", huber_loss_backward},
    {"aten::soft_margin_loss_backward", soft_margin_loss_backward},
    {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss2d_backward", nll_loss_backward},
    {"aten::multi_margin_loss_backward", multi_margin_loss_backward},
    {"aten::multilabel_margin_loss_backward", multilabel_margin_loss_backward},
};

}  // namespace

std::span<const DecompositionRow> loss_backward_rows() { return kRows; }

}  // namespace toroid
