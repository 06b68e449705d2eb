// ATen's gradients of activations and softmax, as they appear in exported training graphs.
#include "formula/backward/activation_backward.h"

#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

template <class F, class... Names>
std::vector<Tensor> derivative(Decomposer& d, const Args& a, F f, Names... names) {
  return combine(d, a, as_floating(promoted_dtype(a, {names...})), f, names...);
}
template <class F>
std::vector<Tensor> of_input(Decomposer& d, const Args& a, F f) {
  return derivative(d, a, f, "grad_output", "self");
}

// Without further arguments: of the input, or of the result.
template <Tensor (*backward)(Tensor, Tensor)>
std::vector<Tensor> of_input(Decomposer& d, const Args& a) {
  return of_input(d, a, backward);
}
template <Tensor (*backward)(Tensor, Tensor)>
std::vector<Tensor> of_output(Decomposer& d, const Args& a) {
  return derivative(d, a, backward, "grad_output", "output");
}

// ---- element by element ---------------------------------------------------------------------------------------------

std::vector<Tensor> gelu_backward(Decomposer& d, const Args& a) {
  const auto approximation = a.text("approximate") == "tanh" ? formula::GeluApproximation::Tanh : formula::GeluApproximation::None;
  return of_input(d, a, [&](Tensor grad, Tensor x) { return formula::gelu_backward(grad, x, approximation); });
}

std::vector<Tensor> infinitely_differentiable_gelu_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) { return formula::gelu_backward(grad, x, formula::GeluApproximation::None); };
  return derivative(d, a, f, "grad", "self");
}

std::vector<Tensor> threshold_backward(Decomposer& d, const Args& a) {
  const double threshold = a.number("threshold");
  return of_input(d, a, [=](Tensor grad, Tensor x) { return formula::threshold_backward(grad, x, threshold); });
}

std::vector<Tensor> hardtanh_backward(Decomposer& d, const Args& a) {
  const double low = a.number("min_val"), high = a.number("max_val");
  return of_input(d, a, [=](Tensor grad, Tensor x) { return formula::hardtanh_backward(grad, x, low, high); });
}

std::vector<Tensor> leaky_relu_backward(Decomposer& d, const Args& a) {
  const double slope = a.number("negative_slope");
  return of_input(d, a, [=](Tensor grad, Tensor x) { return formula::leaky_relu_backward(grad, x, slope); });
}

std::vector<Tensor> elu_backward(Decomposer& d, const Args& a) {
  const double alpha = a.number("alpha"), scale = a.number("scale"), input_scale = a.number("input_scale");
  const auto backward = a.flag("is_result") ? formula::elu_backward_of_result : formula::elu_backward;
  auto f = [=](Tensor grad, Tensor x) { return backward(grad, x, alpha, scale, input_scale); };
  return derivative(d, a, f, "grad_output", "self_or_result");
}

std::vector<Tensor> softplus_backward(Decomposer& d, const Args& a) {
  const double beta = a.number("beta"), threshold = a.number("threshold");
  return of_input(d, a, [=](Tensor grad, Tensor x) { return formula::softplus_backward(grad, x, beta, threshold); });
}

std::vector<Tensor> native_dropout_backward(Decomposer& d, const Args& a) {
  const double scale = a.number("scale");
  auto f = [=](Tensor grad, Tensor mask) { return grad * mask * scale; };
  return derivative(d, a, f, "grad_output", "mask");
}

std::vector<Tensor> shrink_backward(Decomposer& d, const Args& a, const char* grad_name) {
  const double lambda = a.number("lambd");
  auto f = [=](Tensor grad, Tensor x) { return formula::shrink_backward(grad, x, lambda); };
  return derivative(d, a, f, grad_name, "self");
}
std::vector<Tensor> hardshrink_backward(Decomposer& d, const Args& a) { return shrink_backward(d, a, "grad_out"); }
std::vector<Tensor> softshrink_backward(Decomposer& d, const Args& a) { return shrink_backward(d, a, "grad_output"); }

// A negative eps is none.
std::vector<Tensor> logit_backward(Decomposer& d, const Args& a) {
  std::optional<double> eps;
  if (a.has("eps") && a.number("eps") >= 0) eps = a.number("eps");
  return of_input(d, a, [=](Tensor grad, Tensor x) { return formula::logit_backward(grad, x, eps); });
}

// In training `noise` holds the slope of each element; outside of it this is a leaky ReLU of the middle slope.
std::vector<Tensor> rrelu_with_noise_backward(Decomposer& d, const Args& a) {
  const double lower = a.number("lower"), upper = a.number("upper"), slope = (lower + upper) / 2;
  if (a.flag("training") && upper - lower > 1e-6) {
    return derivative(
        d, a, [](Tensor grad, Tensor noise) { return grad * noise; }, "grad_output", "noise");
  }
  return of_input(d, a, [=](Tensor grad, Tensor x) { return formula::leaky_relu_backward(grad, x, slope); });
}

std::vector<Tensor> prelu_kernel_backward(Decomposer& d, const Args& a) {
  return {derivative(d, a, formula::prelu_backward, "grad_output", "self", "weight")[0], of_input(d, a, formula::prelu_slope_backward)[0]};
}

// ---- along a dim ----------------------------------------------------------------------------------------------------

std::vector<Tensor> glu_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), grad = wide(a.tensor("grad_output"));
  return {d.b.cast(formula::glu_backward(grad, wide(x), a.constant("dim")), x.dtype())};
}

std::vector<Tensor> glu_backward_jvp(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("x"), dx = wide(a.tensor("dx"));
  Tensor change = formula::glu_backward_jvp(wide(a.tensor("grad_x")), wide(x), wide(a.tensor("dgrad_glu")), dx, a.constant("dim"));
  return {d.b.cast(change, x.dtype())};
}

template <Tensor (*backward)(Tensor, Tensor, int64_t)>
std::vector<Tensor> of_softmax(Decomposer& d, const Args& a) {
  Tensor grad = wide(a.tensor("grad_output")), y = wide(a.tensor("output"));
  return {d.b.cast(backward(grad, y, a.constant("dim")), *a.dtype("input_dtype"))};
}

std::vector<Tensor> masked_softmax_backward(Decomposer& d, const Args& a) {
  Tensor grad = wide(a.tensor("grad_output")), y = a.tensor("output"), mask = d.b.cast(a.tensor("mask"), DType::Bool);
  const int64_t dim = a.has("dim") ? a.constant("dim") : y.rank() - 1;
  return {d.b.cast(formula::masked_softmax_backward(grad, wide(y), d.b.expand(mask, y.sizes()), dim), y.dtype())};
}

constexpr DecompositionRow kActivationBackwardRows[] = {
    {"aten::gelu_backward", gelu_backward},
    {"aten::threshold_backward", threshold_backward},
    {"aten::tanh_backward", of_output<formula::tanh_backward>},
    {"aten::sigmoid_backward", of_output<formula::sigmoid_backward>},
    {"aten::silu_backward", of_input<formula::silu_backward>},
    {"aten::hardswish_backward", of_input<formula::hardswish_backward>},
    {"aten::hardsigmoid_backward", of_input<formula::hardsigmoid_backward>},
    {"aten::hardtanh_backward", hardtanh_backward},
    {"aten::leaky_relu_backward", leaky_relu_backward},
    {"aten::elu_backward", elu_backward},
    {"aten::softplus_backward", softplus_backward},
    {"aten::hardshrink_backward", hardshrink_backward},
    {"aten::softshrink_backward", softshrink_backward},
    {"aten::mish_backward", of_input<formula::mish_backward>},
    {"aten::log_sigmoid_backward", of_input<formula::log_sigmoid_backward>},
    {"aten::logit_backward", logit_backward},
    {"aten::infinitely_differentiable_gelu_backward", infinitely_differentiable_gelu_backward},
    {"aten::rrelu_with_noise_backward", rrelu_with_noise_backward},
    {"aten::_prelu_kernel_backward", prelu_kernel_backward},
    {"aten::glu_backward", glu_backward},
    {"aten::glu_backward_jvp", glu_backward_jvp},
    {"aten::_masked_softmax_backward", masked_softmax_backward},
    {"aten::native_dropout_backward", native_dropout_backward},
    {"aten::_softmax_backward_data", of_softmax<formula::softmax_backward>},
    {"aten::_log_softmax_backward_data", of_softmax<formula::log_softmax_backward>},
};

}  // namespace

std::span<const DecompositionRow> activation_backward_rows() { return kActivationBackwardRows; }

}  // namespace toroid
