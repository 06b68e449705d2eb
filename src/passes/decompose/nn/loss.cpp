// ATen's losses between a prediction and a target of the same shape, and margin losses.
#include "formula/nn/loss.h"

#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/nn/loss_reduction.h"

namespace toroid {
namespace {

// f over the named arguments element by element, in F32 for reduced floats, then the reduction that the caller asks
// for.
template <class F, class... Names>
std::vector<Tensor> elementwise_loss(Decomposer& d, const Args& a, F f, Names... names) {
  const DType dtype = as_floating(promoted_dtype(a, {names...}));
  return {d.b.cast(formula::reduced(f(operand(d, a, names, compute_dtype(dtype))...), loss_reduction(a)), dtype)};
}

// Where PyTorch computes in place, or in a tensor like one of the arguments, that one's floating dtype stays.
Tensor with_dtype_of(Decomposer& d, Tensor argument, Tensor loss) {
  return is_floating(argument.dtype()) ? d.b.cast(loss, argument.dtype()) : loss;
}

template <Tensor (*loss)(Tensor, Tensor)>
std::vector<Tensor> of_target(Decomposer& d, const Args& a) {
  return elementwise_loss(d, a, loss, "self", "target");
}

// With a number that is the argument `name`.
template <Tensor (*loss)(Tensor, Tensor, double)>
std::vector<Tensor> with_number(Decomposer& d, const Args& a, std::string_view name) {
  const double number = a.number(name);
  return elementwise_loss(
      d, a, [number](Tensor x, Tensor t) { return loss(x, t, number); }, "self", "target");
}
std::vector<Tensor> smooth_l1_loss(Decomposer& d, const Args& a) { return with_number<formula::smooth_l1_loss>(d, a, "beta"); }
std::vector<Tensor> huber_loss(Decomposer& d, const Args& a) { return with_number<formula::huber_loss>(d, a, "delta"); }
std::vector<Tensor> hinge_embedding_loss(Decomposer& d, const Args& a) {
  return {with_dtype_of(d, a.tensor("self"), with_number<formula::hinge_embedding_loss>(d, a, "margin")[0])};
}

std::vector<Tensor> binary_cross_entropy(Decomposer& d, const Args& a) {
  Tensor weight = wide(a.optional_tensor("weight"));
  auto loss = [&](Tensor x, Tensor t) { return formula::binary_cross_entropy(x, t, weight); };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> binary_cross_entropy_with_logits(Decomposer& d, const Args& a) {
  Tensor weight = wide(a.optional_tensor("weight")), positive = wide(a.optional_tensor("pos_weight"));
  auto loss = [&](Tensor x, Tensor t) { return formula::binary_cross_entropy_with_logits(x, t, weight, positive); };
  return {with_dtype_of(d, a.tensor("target"), elementwise_loss(d, a, loss, "self", "target")[0])};
}

std::vector<Tensor> kl_div(Decomposer& d, const Args& a) {
  const bool log_target = a.flag("log_target");
  auto loss = [log_target](Tensor x, Tensor t) { return formula::kl_div(x, t, log_target); };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> margin_ranking_loss(Decomposer& d, const Args& a) {
  const double margin = a.number("margin");
  auto loss = [margin](Tensor x1, Tensor x2, Tensor t) { return formula::margin_ranking_loss(x1, x2, t, margin); };
  return elementwise_loss(d, a, loss, "input1", "input2", "target");
}

std::vector<Tensor> poisson_nll_loss(Decomposer& d, const Args& a) {
  const bool log_input = a.flag("log_input"), full = a.flag("full");
  const double eps = a.number("eps");
  auto loss = [=](Tensor x, Tensor t) { return formula::poisson_nll_loss(x, t, log_input, full, eps); };
  return elementwise_loss(d, a, loss, "input", "target");
}

// ---- losses over vectors --------------------------------------------------------------------------------------------

std::vector<Tensor> cosine_embedding_loss(Decomposer& d, const Args& a) {
  const double margin = a.number("margin");
  const Tensor t = a.tensor("target");  // only compared: its dtype is not the loss's
  auto loss = [&](Tensor x1, Tensor x2) { return formula::cosine_embedding_loss(x1, x2, t, margin); };
  return elementwise_loss(d, a, loss, "input1", "input2");
}

std::vector<Tensor> triplet_margin_loss(Decomposer& d, const Args& a) {
  const double margin = a.number("margin");
  auto distance = [&](Tensor x, Tensor y) { return d.call1("aten::pairwise_distance", {x, y, a.number("p"), a.number("eps")}); };
  auto loss = [&](Tensor anchor, Tensor positive, Tensor negative) {
    Tensor apart = distance(anchor, negative);
    if (a.flag("swap")) apart = minimum(apart, distance(positive, negative));
    return maximum(margin + distance(anchor, positive) - apart, 0);
  };
  return elementwise_loss(d, a, loss, "anchor", "positive", "negative");
}

std::vector<Tensor> multi_margin_loss(Decomposer&, const Args& a) {
  const Tensor weight = a.has("weight") ? a.tensor("weight") : Tensor();
  return {formula::multi_margin_loss(a.tensor("self"), a.tensor("target"), a.scalar("p"), a.scalar("margin"), weight, loss_reduction(a))};
}

std::vector<Tensor> multilabel_margin_loss_forward(Decomposer&, const Args& a) {
  const formula::MultilabelMarginLoss result = formula::multilabel_margin_loss(a.tensor("self"), a.tensor("target"), loss_reduction(a));
  return {result.loss, result.is_target};
}

std::vector<Tensor> multilabel_margin_loss(Decomposer& d, const Args& a) { return {multilabel_margin_loss_forward(d, a)[0]}; }

constexpr DecompositionRow kLossRows[] = {
    {"aten::mse_loss", of_target<formula::mse_loss>},
    {"aten::l1_loss", of_target<formula::l1_loss>},
    {"aten::smooth_l1_loss", smooth_l1_loss},
    {"aten::huber_loss", huber_loss},
    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
    {"aten::kl_div", kl_div},
    {"aten::soft_margin_loss", of_target<formula::soft_margin_loss>},
    {"aten::hinge_embedding_loss", hinge_embedding_loss},
    {"aten::margin_ranking_loss", margin_ranking_loss},
    {"aten::poisson_nll_loss", poisson_nll_loss},
    {"aten::cosine_embedding_loss", cosine_embedding_loss},
    {"aten::triplet_margin_loss", triplet_margin_loss},
    {"aten::multi_margin_loss", multi_margin_loss},
    {"aten::multilabel_margin_loss", multilabel_margin_loss},
    {"aten::multilabel_margin_loss_forward", multilabel_margin_loss_forward},
};

}  // namespace

std::span<const DecompositionRow> loss_rows() { return kLossRows; }

}  // namespace toroid
