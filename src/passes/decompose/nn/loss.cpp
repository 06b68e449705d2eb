// Losses between a prediction and a target of the same shape, and margin losses.
#include <cmath>
#include <numbers>

#include "formula/basics/index_tensors.h"
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
  return {d.b.cast(reduced(f(operand(d, a, names, compute_dtype(dtype))...), loss_reduction(a)), dtype)};
}

std::vector<Tensor> mse_loss(Decomposer& d, const Args& a) {
  return elementwise_loss(
      d, a, [](Tensor x, Tensor t) { return square(x - t); }, "self", "target");
}

std::vector<Tensor> l1_loss(Decomposer& d, const Args& a) {
  return elementwise_loss(
      d, a, [](Tensor x, Tensor t) { return abs(x - t); }, "self", "target");
}

// Quadratic up to beta, then linear.
std::vector<Tensor> smooth_l1_loss(Decomposer& d, const Args& a) {
  const double beta = a.number("beta");
  if (beta == 0) return l1_loss(d, a);
  auto loss = [beta](Tensor x, Tensor t) {
    Tensor z = abs(x - t);
    return where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta);
  };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> huber_loss(Decomposer& d, const Args& a) {
  const double delta = a.number("delta");
  auto loss = [delta](Tensor x, Tensor t) {
    Tensor z = abs(x - t);
    return where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta));
  };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> binary_cross_entropy(Decomposer& d, const Args& a) {
  Tensor weight = wide(a.optional_tensor("weight"));
  auto loss = [&](Tensor x, Tensor t) {
    // Logarithms are kept above -100, so that a sure and wrong answer costs something finite.
    Tensor z = (t - 1.0) * maximum(log1p(-x), -100) - t * maximum(log(x), -100);
    return weight.defined() ? z * weight : z;
  };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> binary_cross_entropy_with_logits(Decomposer& d, const Args& a) {
  Tensor weight = wide(a.optional_tensor("weight")), positive = wide(a.optional_tensor("pos_weight"));
  auto loss = [&](Tensor x, Tensor t) {
    Tensor softplus = log1p(exp(-abs(x))) + maximum(-x, 0);  // log(1 + exp(-x)) without overflow
    if (positive.defined()) softplus = softplus * ((positive - 1.0) * t + 1.0);
    Tensor z = (1.0 - t) * x + softplus;
    return weight.defined() ? z * weight : z;
  };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> kl_div(Decomposer& d, const Args& a) {
  const bool log_target = a.flag("log_target");
  auto loss = [log_target](Tensor x, Tensor t) {
    if (log_target) return exp(t) * (t - x);
    return where(eq(t, 0), 0, t * log(t)) - t * x;
  };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> soft_margin_loss(Decomposer& d, const Args& a) {
  return elementwise_loss(
      d, a, [](Tensor x, Tensor t) { return log1p(exp(-t * x)); }, "self", "target");
}

std::vector<Tensor> hinge_embedding_loss(Decomposer& d, const Args& a) {
  const double margin = a.number("margin");
  auto loss = [margin](Tensor x, Tensor t) { return where(ne(t, 1), maximum(margin - x, 0), 0) + where(ne(t, -1), x, 0); };
  return elementwise_loss(d, a, loss, "self", "target");
}

std::vector<Tensor> margin_ranking_loss(Decomposer& d, const Args& a) {
  const double margin = a.number("margin");
  auto loss = [margin](Tensor x1, Tensor x2, Tensor t) { return maximum(-t * (x1 - x2) + margin, 0); };
  return elementwise_loss(d, a, loss, "input1", "input2", "target");
}

std::vector<Tensor> poisson_nll_loss(Decomposer& d, const Args& a) {
  const bool log_input = a.flag("log_input"), full = a.flag("full");
  const double eps = a.number("eps");
  auto loss = [=](Tensor x, Tensor t) {
    Tensor z = log_input ? exp(x) - t * x : x - t * log(x + eps);
    if (!full) return z;
    Tensor stirling = t * log(t) - t + 0.5 * log(2 * std::numbers::pi * t);
    return z + where(t <= 1, 0, stirling);
  };
  return elementwise_loss(d, a, loss, "input", "target");
}

// ---- losses over vectors --------------------------------------------------------------------------------------------

std::vector<Tensor> cosine_embedding_loss(Decomposer& d, const Args& a) {
  constexpr double kEpsilon = 1e-12;
  const double margin = a.number("margin");
  const Tensor t = a.tensor("target");  // only compared: its dtype is not the loss's
  const int64_t dim = t.rank();         // the vectors are the last dim
  auto loss = [&](Tensor x1, Tensor x2) {
    auto sum = [&](Tensor x) { return d.b.sum(x, {dim}); };
    Tensor similarity = sum(x1 * x2) / sqrt((sum(x1 * x1) + kEpsilon) * (sum(x2 * x2) + kEpsilon));
    return where(eq(t, 1), 1.0 - similarity, 0) + where(eq(t, -1), maximum(similarity - margin, 0), 0);
  };
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

// [C] or a single number as [1, C].
Tensor as_rows(Tensor x) { return x.rank() == 2 ? x : x.builder().reshape(x, {1, x.numel()}); }

// Losses of [N, C] are [N]; those of a vector are a single number.
std::vector<Tensor> reduce_rows(Tensor self, Tensor loss, LossReduction reduction) {
  Builder& b = self.builder();
  if (self.rank() < 2) loss = b.reshape(loss, {});
  return {b.cast(reduced(loss, reduction), self.dtype())};
}

// How much each other class comes within the margin of the target's.
std::vector<Tensor> multi_margin_loss(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self"), x = as_rows(wide(self));
  Tensor target = b.reshape(a.tensor("target"), {x.size(0)});
  const Scalar p = a.scalar("p"), margin = a.scalar("margin");
  Tensor own = b.gather(x, index_along(b.unsqueeze(target, 1), 1));
  Tensor excess = x - own + number_like(x, margin);
  excess = where(excess > 0, excess, 0);  // a NaN exceeds nothing
  if (is_number(p, 2)) {
    excess = square(excess);
  } else if (!is_number(p, 1)) {
    throw Error(ErrorKind::InvalidModel, "multi_margin_loss is for p = 1 and p = 2");
  }
  if (a.has("weight")) excess = excess * b.unsqueeze(b.gather(wide(a.tensor("weight")), {target}), 1);
  Tensor is_own = b.binary(ScalarOp::Eq, b.unsqueeze(target, 1), b.arange(x.size(1)));
  Tensor loss = b.mean(where(is_own, 0, excess), {1});
  return reduce_rows(self, loss, loss_reduction(a));
}

// Each row of `target` lists classes, up to the first negative entry: each should exceed every class that is not listed
// by 1.
std::vector<Tensor> multilabel_margin_loss_forward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self"), x = as_rows(wide(self)), target = as_rows(b.cast(a.tensor("target"), DType::I64));
  Tensor listed = b.cast(b.scan(ScanOp::Min, target, 1)[0] >= 0, DType::Bool);
  Tensor safe = where(listed, target, 0);
  Tensor names = b.unsqueeze(listed, 2) & eq(b.unsqueeze(safe, 2), b.arange(x.size(1)));  // [N, entry, class]
  Tensor is_target = b.reduce(ReduceOp::Any, names, {1})[0];
  Tensor own = b.gather(x, index_along(safe, 1));
  Tensor excess = maximum(b.unsqueeze(x, 1) - b.unsqueeze(own, 2) + 1.0, 0);
  Tensor counts = b.unsqueeze(listed, 2) & !b.unsqueeze(is_target, 1);
  Tensor loss = b.sum(where(counts, excess, 0), {1, 2}) / number_like(x, Scalar(x.size(1)));
  return {reduce_rows(self, loss, loss_reduction(a))[0], b.cast(b.reshape(is_target, a.tensor("target").sizes()), self.dtype())};
}

std::vector<Tensor> multilabel_margin_loss(Decomposer& d, const Args& a) { return {multilabel_margin_loss_forward(d, a)[0]}; }

constexpr DecompositionRow kRows[] = {
    {"aten::mse_loss", mse_loss},
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

std::span<const DecompositionRow> loss_rows() { return kRows; }

}  // namespace toroid
