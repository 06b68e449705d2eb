// ATen's losses between a prediction and a target of the same shape, and margin losses.
#include "formula/nn/loss.h"

#include <numbers>

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

// PyTorch's kernels of these two give the dtype of `self`, its tracer that of both arguments: the model says who recorded it.
std::vector<Tensor> as_kernel_or_tracer(Decomposer& d, const Args& a, std::vector<Tensor> loss) {
  const DType of_kernel = a.tensor("self").dtype();
  const bool is_kernels = !d.recorded.empty() && d.recorded[0].dtype == of_kernel && is_floating(of_kernel);
  if (is_kernels) loss[0] = d.b.cast(loss[0], of_kernel);
  return loss;
}
std::vector<Tensor> huber_loss(Decomposer& d, const Args& a) {
  return as_kernel_or_tracer(d, a, with_number<formula::huber_loss>(d, a, "delta"));
}
std::vector<Tensor> soft_margin_loss(Decomposer& d, const Args& a) {
  return as_kernel_or_tracer(d, a, of_target<formula::soft_margin_loss>(d, a));
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

// ---- losses that PyTorch composes of other operators ---------------------------------------------------------------

// These operators, with the promotion of each step: log of integers is float32 whatever stands beside it, u8 minus u8 wraps around, and
// what is too small for float16 is 0.
class Steps {
 public:
  explicit Steps(Decomposer& d) : d_(d) {}
  using Value = Decomposer::Value;

  Tensor add(Value x, Value y) { return d_.call1("aten::add.Tensor", {x, y}); }
  Tensor subtract(Value x, Value y) { return d_.call1("aten::sub.Tensor", {x, y}); }
  Tensor multiply(Value x, Value y) { return d_.call1("aten::mul.Tensor", {x, y}); }
  Tensor divide(Value x, Value y) { return d_.call1("aten::div.Tensor", {x, y}); }
  Tensor exp(Value x) { return d_.call1("aten::exp", {x}); }
  Tensor log(Value x) { return d_.call1("aten::log", {x}); }
  Tensor sqrt(Value x) { return d_.call1("aten::sqrt", {x}); }
  Tensor sum(Value x, const Dims& dims) { return d_.call1("aten::sum.dim_IntList", {x, dims}); }
  Tensor at_least_0(Value x) { return d_.call1("aten::clamp_min", {x, 0}); }
  Tensor equal(Value x, Value y) { return d_.call1("aten::eq.Tensor", {x, y}); }
  Tensor distance(Value x, Value y, double p, double eps) { return d_.call1("aten::pairwise_distance", {x, y, p, eps}); }

  std::vector<Tensor> reduced(Tensor loss, const Args& a) {
    const formula::LossReduction reduction = loss_reduction(a);
    if (reduction == formula::LossReduction::None) return {loss};
    return {d_.call1(reduction == formula::LossReduction::Mean ? "aten::mean" : "aten::sum", {loss})};
  }

 private:
  Decomposer& d_;
};

std::vector<Tensor> l1_loss(Decomposer& d, const Args& a) {
  Steps s(d);
  return s.reduced(d.call1("aten::abs", {s.subtract(a.tensor("self"), a.tensor("target"))}), a);
}

// t (log t - x), x a logarithm, and t one too with log_target.
std::vector<Tensor> kl_div(Decomposer& d, const Args& a) {
  Steps s(d);
  const Tensor x = a.tensor("self"), t = a.tensor("target");
  if (!is_floating(x.dtype()) || !is_floating(t.dtype())) throw Error(ErrorKind::InvalidModel, "kl_div is for floating tensors");
  if (a.flag("log_target")) return s.reduced(s.multiply(s.exp(t), s.subtract(t, x)), a);
  return s.reduced(s.subtract(d.call1("aten::xlogy.Tensor", {t, t}), s.multiply(t, x)), a);
}

// x where t is 1, max(margin - x, 0) where it is -1. The margin is a number of x's dtype.
std::vector<Tensor> hinge_embedding_loss(Decomposer& d, const Args& a) {
  Steps s(d);
  const Tensor x = a.tensor("self"), t = a.tensor("target");
  const Tensor distance = s.at_least_0(s.subtract(d.b.cast(d.b.scalar(DType::F64, a.number("margin")), x.dtype()), x));
  return s.reduced(s.add(where(s.equal(t, 1), 0, distance), where(s.equal(t, -1), 0, x)), a);
}

// max(margin - t (x1 - x2), 0) for targets -1 and 1.
std::vector<Tensor> margin_ranking_loss(Decomposer& d, const Args& a) {
  Steps s(d);
  const Tensor wrong = s.multiply(d.call1("aten::neg", {a.tensor("target")}), s.subtract(a.tensor("input1"), a.tensor("input2")));
  return s.reduced(s.at_least_0(s.add(wrong, a.number("margin"))), a);
}

// e^x - t x with log_input, else x - t log(x + eps); `full` adds Stirling's approximation of log(t!) where t > 1, in the other's dtype.
std::vector<Tensor> poisson_nll_loss(Decomposer& d, const Args& a) {
  Steps s(d);
  const Tensor x = a.tensor("input"), t = a.tensor("target");
  Tensor loss =
      a.flag("log_input") ? s.subtract(s.exp(x), s.multiply(t, x)) : s.subtract(x, s.multiply(t, s.log(s.add(x, a.number("eps")))));
  if (a.flag("full")) {
    const Tensor circle = s.multiply(s.log(s.multiply(t, 2 * std::numbers::pi)), 0.5);
    const Tensor stirling = s.add(s.subtract(s.multiply(t, s.log(t)), t), circle);
    loss = d.b.cast(s.add(loss, where(t <= 1, 0, stirling)), loss.dtype());
  }
  return s.reduced(loss, a);
}

// 1 - cos(x1, x2) where t is 1, max(cos(x1, x2) - margin, 0) where it is -1, of vectors in the last dim. t has the other dims.
std::vector<Tensor> cosine_embedding_loss(Decomposer& d, const Args& a) {
  constexpr double kEpsilon = 1e-12;
  Steps s(d);
  const Tensor x1 = a.tensor("input1"), x2 = a.tensor("input2"), t = a.tensor("target");
  const Dims dim = {t.rank()};
  const Tensor square1 = s.add(s.sum(s.multiply(x1, x1), dim), kEpsilon), square2 = s.add(s.sum(s.multiply(x2, x2), dim), kEpsilon);
  const Tensor cosine = s.divide(s.sum(s.multiply(x1, x2), dim), s.sqrt(s.multiply(square1, square2)));
  const Tensor apart = where(s.equal(t, 1), s.subtract(1, cosine), 0);
  return s.reduced(s.add(apart, where(s.equal(t, -1), s.at_least_0(s.subtract(cosine, a.number("margin"))), 0)), a);
}

// max(margin + |anchor - positive| - |anchor - negative|, 0); with `swap` the nearer of anchor and positive to negative counts.
std::vector<Tensor> triplet_margin_loss(Decomposer& d, const Args& a) {
  Steps s(d);
  const auto distance = [&](std::string_view x, std::string_view y) {
    return s.distance(a.tensor(x), a.tensor(y), a.number("p"), a.number("eps"));
  };
  Tensor apart = distance("anchor", "negative");
  if (a.flag("swap")) apart = d.call1("aten::minimum", {apart, distance("positive", "negative")});
  return s.reduced(s.at_least_0(s.subtract(s.add(distance("anchor", "positive"), a.number("margin")), apart)), a);
}

// ---- losses over classes -------------------------------------------------------------------------------------------

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
    {"aten::l1_loss", l1_loss},
    {"aten::smooth_l1_loss", smooth_l1_loss},
    {"aten::huber_loss", huber_loss},
    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
    {"aten::kl_div", kl_div},
    {"aten::soft_margin_loss", soft_margin_loss},
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
