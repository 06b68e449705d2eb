// ATen's gradients of losses with respect to the prediction.
#include "formula/backward/loss_backward.h"

#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/nn/loss_reduction.h"

namespace toroid {
namespace {

// grad_output * slope(self, target) element by element; a mean is over self's elements.
template <class F>
std::vector<Tensor> elementwise_gradient(Decomposer& d, const Args& a, F slope) {
  const DType dtype = as_floating(promoted_dtype(a, {"grad_output", "self", "target"}));
  const formula::LossReduction reduction = loss_reduction(a);
  const sym::Expr count = a.tensor("self").numel();
  auto gradient = [&](Tensor grad, Tensor x, Tensor t) { return formula::through_reduction(slope(x, t), grad, reduction, count); };
  return combine(d, a, dtype, gradient, "grad_output", "self", "target");
}

template <Tensor (*slope)(Tensor, Tensor)>
std::vector<Tensor> of_target(Decomposer& d, const Args& a) {
  return elementwise_gradient(d, a, slope);
}

std::vector<Tensor> smooth_l1_loss_backward(Decomposer& d, const Args& a) {
  const double beta = a.number("beta");
  return elementwise_gradient(d, a, [beta](Tensor x, Tensor t) { return formula::smooth_l1_loss_slope(x, t, beta); });
}

std::vector<Tensor> huber_loss_backward(Decomposer& d, const Args& a) {
  const double delta = a.number("delta");
  return elementwise_gradient(d, a, [delta](Tensor x, Tensor t) { return formula::huber_loss_slope(x, t, delta); });
}

std::vector<Tensor> binary_cross_entropy_backward(Decomposer& d, const Args& a) {
  Tensor weight = wide(a.optional_tensor("weight"));
  return elementwise_gradient(d, a, [&](Tensor x, Tensor t) { return formula::binary_cross_entropy_slope(x, t, weight); });
}

// ---- classes --------------------------------------------------------------------------------------------------------

std::vector<Tensor> nll_loss_backward(Decomposer&, const Args& a) {
  return {formula::nll_loss_backward(a.tensor("grad_output"), a.tensor("self"), a.tensor("target"), a.optional_tensor("weight"),
                                     a.tensor("total_weight"), loss_reduction(a), a.integer("ignore_index"))};
}

std::vector<Tensor> multi_margin_loss_backward(Decomposer&, const Args& a) {
  return {formula::multi_margin_loss_backward(a.tensor("grad_output"), a.tensor("self"), a.tensor("target"), a.scalar("p"),
                                              a.scalar("margin"), a.optional_tensor("weight"), loss_reduction(a))};
}

std::vector<Tensor> multilabel_margin_loss_backward(Decomposer&, const Args& a) {
  return {formula::multilabel_margin_loss_backward(a.tensor("grad_output"), a.tensor("self"), a.tensor("target"), a.tensor("is_target"),
                                                   loss_reduction(a))};
}

constexpr DecompositionRow kLossBackwardRows[] = {
    {"aten::mse_loss_backward", of_target<formula::mse_loss_slope>},
    {"aten::smooth_l1_loss_backward", smooth_l1_loss_backward},
    {"aten::huber_loss_backward", huber_loss_backward},
    {"aten::soft_margin_loss_backward", of_target<formula::soft_margin_loss_slope>},
    {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss2d_backward", nll_loss_backward},
    {"aten::multi_margin_loss_backward", multi_margin_loss_backward},
    {"aten::multilabel_margin_loss_backward", multilabel_margin_loss_backward},
};

}  // namespace

std::span<const DecompositionRow> loss_backward_rows() { return kLossBackwardRows; }

}  // namespace toroid
