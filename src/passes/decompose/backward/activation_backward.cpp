// Gradients of activations and softmax, as they appear in exported training graphs.
//
// `grad` is always the gradient of the result. What a formula needs of the forward pass is an argument: the input, or
// the output where the derivative is cheaper in its terms.
#include <cmath>
#include <numbers>

#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

template <class F, class... Names>
std::vector<Tensor> derivative(Decomposer& d, const Args& a, F f, Names... names) {
  return combine(d, a, as_floating(promoted_dtype(a, {names...})), f, names...);
}

// ---- activations ----------------------------------------------------------------------------------------------------

// The derivative of x * Phi(x), in terms that it shares with gelu itself.
Tensor gelu_slope(Tensor x) {
  Tensor cumulative = 0.5 * (1.0 + erf(x * (std::numbers::sqrt2 / 2)));
  Tensor density = exp(-0.5 * x * x) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
  return cumulative + x * density;
}

std::vector<Tensor> gelu_backward(Decomposer& d, const Args& a) {
  const bool by_tanh = a.text("approximate") == "tanh";
  auto f = [by_tanh](Tensor grad, Tensor x) {
    if (!by_tanh) return grad * gelu_slope(x);
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
    Tensor t = tanh(scale * (x + cubic * x * x * x));
    Tensor slope = scale * (3 * cubic * x * x + 1.0);
    return grad * (0.5 * (t + 1.0) + 0.5 * x * (1.0 - t * t) * slope);
  };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> threshold_backward(Decomposer& d, const Args& a) {
  const double threshold = a.number("threshold");
  auto f = [=](Tensor grad, Tensor x) { return where(x <= threshold, 0, grad); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> tanh_backward(Decomposer& d, const Args& a) {
  return derivative(
      d, a, [](Tensor grad, Tensor y) { return grad * (1.0 - y * y); }, "grad_output", "output");
}

std::vector<Tensor> sigmoid_backward(Decomposer& d, const Args& a) {
  return derivative(
      d, a, [](Tensor grad, Tensor y) { return grad * (1.0 - y) * y; }, "grad_output", "output");
}

std::vector<Tensor> silu_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) {
    Tensor s = sigmoid(x);
    return grad * s * (x * (1.0 - s) + 1.0);
  };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> hardswish_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) { return where(x <= -3.0, 0, where(x < 3.0, grad * (x / 3.0 + 0.5), grad)); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> hardsigmoid_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) { return where((x > -3.0) & (x < 3.0), grad / 6.0, 0); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> hardtanh_backward(Decomposer& d, const Args& a) {
  const double low = a.number("min_val"), high = a.number("max_val");
  auto f = [=](Tensor grad, Tensor x) { return where((x <= low) | (x >= high), 0, grad); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> leaky_relu_backward(Decomposer& d, const Args& a) {
  const double slope = a.number("negative_slope");
  auto f = [=](Tensor grad, Tensor x) { return where(x > 0, grad, grad * slope); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> elu_backward(Decomposer& d, const Args& a) {
  const double alpha = a.number("alpha"), scale = a.number("scale"), input_scale = a.number("input_scale");
  const bool is_result = a.flag("is_result");
  auto f = [=](Tensor grad, Tensor x) {
    Tensor negative = is_result ? grad * input_scale * (x + alpha * scale) : grad * (input_scale * alpha * scale) * exp(x * input_scale);
    return where(x <= 0, negative, grad * scale);
  };
  return derivative(d, a, f, "grad_output", "self_or_result");
}

std::vector<Tensor> softplus_backward(Decomposer& d, const Args& a) {
  const double beta = a.number("beta"), threshold = a.number("threshold");
  auto f = [=](Tensor grad, Tensor x) { return where(x * beta > threshold, grad, grad * sigmoid(x * beta)); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> native_dropout_backward(Decomposer& d, const Args& a) {
  const double scale = a.number("scale");
  auto f = [=](Tensor grad, Tensor mask) { return grad * mask * scale; };
  return derivative(d, a, f, "grad_output", "mask");
}

std::vector<Tensor> hardshrink_backward(Decomposer& d, const Args& a) {
  const double lambda = a.number("lambd");
  auto f = [=](Tensor grad, Tensor x) { return where((x >= -lambda) & (x <= lambda), 0, grad); };
  return derivative(d, a, f, "grad_out", "self");
}

std::vector<Tensor> softshrink_backward(Decomposer& d, const Args& a) {
  const double lambda = a.number("lambd");
  auto f = [=](Tensor grad, Tensor x) { return where((x >= -lambda) & (x <= lambda), 0, grad); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> mish_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) {
    Tensor t = tanh(maximum(x, 0) + log1p(exp(-abs(x))));
    return grad * (t + x * sigmoid(x) * (1.0 - t * t));
  };
  return derivative(d, a, f, "grad_output", "self");
}

// `buffer` holds exp(-|x|), from which the result follows too; x says it as well.
std::vector<Tensor> log_sigmoid_backward(Decomposer& d, const Args& a) {
  return derivative(
      d, a, [](Tensor grad, Tensor x) { return grad * sigmoid(-x); }, "grad_output", "self");
}

// Outside [eps, 1 - eps] the argument was clamped; without eps, outside [0, 1] there is no logit.
std::vector<Tensor> logit_backward(Decomposer& d, const Args& a) {
  const bool clamps = a.has("eps") && a.number("eps") >= 0;
  const double low = clamps ? a.number("eps") : 0;
  auto f = [=](Tensor grad, Tensor x) {
    Tensor outside = (x < low) | (x > 1 - low);
    return where(outside, clamps ? 0 : std::nan(""), grad / (x * (1.0 - x)));
  };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> infinitely_differentiable_gelu_backward(Decomposer& d, const Args& a) {
  return derivative(
      d, a, [](Tensor grad, Tensor x) { return grad * gelu_slope(x); }, "grad", "self");
}

// In training `noise` holds the slope of each element; outside of it this is a leaky ReLU of the middle slope.
std::vector<Tensor> rrelu_with_noise_backward(Decomposer& d, const Args& a) {
  const double lower = a.number("lower"), upper = a.number("upper"), slope = (lower + upper) / 2;
  if (a.flag("training") && upper - lower > 1e-6) {
    return derivative(
        d, a, [](Tensor grad, Tensor noise) { return grad * noise; }, "grad_output", "noise");
  }
  auto f = [=](Tensor grad, Tensor x) { return where(x > 0, grad, grad * slope); };
  return derivative(d, a, f, "grad_output", "self");
}

// Of x and of the slope, before the slope's is summed over what shares one.
std::vector<Tensor> prelu_kernel_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x, Tensor weight) { return where(x > 0, grad, grad * weight); };
  auto g = [](Tensor grad, Tensor x) { return where(x > 0, 0, grad * x); };
  return {derivative(d, a, f, "grad_output", "self", "weight")[0], derivative(d, a, g, "grad_output", "self")[0]};
}

// ---- glu ------------------------------------------------------------------------------------------------------------

// x = [a, b] along `dim`; glu(x) = a * sigmoid(b).
struct Halves {
  Tensor a, b;
};
Halves halves_of(Tensor x, int64_t dim) {
  Builder& b = x.builder();
  dim = b.wrap_dim(dim, x.rank());
  const sym::Expr half = sym::floor_div(x.size(dim), 2);
  return {b.slice(x, dim, 0, half), b.slice(x, dim, half, half)};
}

std::vector<Tensor> glu_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), grad = wide(a.tensor("grad_output"));
  const Halves halves = halves_of(wide(x), a.constant("dim"));
  Tensor gate = sigmoid(halves.b), through = grad * gate;
  return {d.b.cast(d.b.cat({through, through * (1.0 - gate) * halves.a}, a.constant("dim")), x.dtype())};
}

// The change of glu's gradient [g_a, g_b] = grad_x as x changes by dx and the gradient of the result by dgrad_glu.
std::vector<Tensor> glu_backward_jvp(Decomposer& d, const Args& a) {
  const int64_t dim = a.constant("dim");
  Tensor x = a.tensor("x");
  const Halves halves = halves_of(wide(x), dim), change = halves_of(wide(a.tensor("dx")), dim);
  Tensor grad = halves_of(wide(a.tensor("grad_x")), dim).a, gate = sigmoid(halves.b);
  Tensor first = wide(a.tensor("dgrad_glu")) * gate + grad * (1.0 - gate) * change.b;
  Tensor second = (first * halves.a + grad * (change.a - halves.a * gate * change.b)) * (1.0 - gate);
  return {d.b.cast(d.b.cat({first, second}, dim), x.dtype())};
}

// ---- softmax --------------------------------------------------------------------------------------------------------

Tensor sum_along(Tensor x, int64_t dim) { return x.rank() == 0 ? x : x.builder().keep(x.builder().sum(x, {dim}), {dim}); }

std::vector<Tensor> softmax_backward(Decomposer& d, const Args& a) {
  Tensor grad = wide(a.tensor("grad_output")), y = wide(a.tensor("output"));
  return {d.b.cast(y * (grad - sum_along(grad * y, a.constant("dim"))), *a.dtype("input_dtype"))};
}

std::vector<Tensor> log_softmax_backward(Decomposer& d, const Args& a) {
  Tensor grad = wide(a.tensor("grad_output")), y = wide(a.tensor("output"));
  return {d.b.cast(grad - exp(y) * sum_along(grad, a.constant("dim")), *a.dtype("input_dtype"))};
}

// Where `mask` is true there is no element.
std::vector<Tensor> masked_softmax_backward(Decomposer& d, const Args& a) {
  Tensor grad = wide(a.tensor("grad_output")), y = a.tensor("output"), mask = d.b.cast(a.tensor("mask"), DType::Bool);
  const int64_t dim = a.has("dim") ? a.constant("dim") : y.rank() - 1;
  mask = d.b.expand(mask, y.sizes());
  Tensor shares = where(mask, 0, grad * wide(y));
  return {d.b.cast(where(mask, 0, wide(y) * (grad - sum_along(shares, dim))), y.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::gelu_backward", gelu_backward},
    {"aten::threshold_backward", threshold_backward},
    {"aten::tanh_backward", tanh_backward},
    {"aten::sigmoid_backward", sigmoid_backward},
    {"aten::silu_backward", silu_backward},
    {"aten::hardswish_backward", hardswish_backward},
    {"aten::hardsigmoid_backward", hardsigmoid_backward},
    {"aten::hardtanh_backward", hardtanh_backward},
    {"aten::leaky_relu_backward", leaky_relu_backward},
    {"aten::elu_backward", elu_backward},
    {"aten::softplus_backward", softplus_backward},
    {"aten::hardshrink_backward", hardshrink_backward},
    {"aten::softshrink_backward", softshrink_backward},
    {"aten::mish_backward", mish_backward},
    {"aten::log_sigmoid_backward", log_sigmoid_backward},
    {"aten::logit_backward", logit_backward},
    {"aten::infinitely_differentiable_gelu_backward", infinitely_differentiable_gelu_backward},
    {"aten::rrelu_with_noise_backward", rrelu_with_noise_backward},
    {"aten::_prelu_kernel_backward", prelu_kernel_backward},
    {"aten::glu_backward", glu_backward},
    {"aten::glu_backward_jvp", glu_backward_jvp},
    {"aten::_masked_softmax_backward", masked_softmax_backward},
    {"aten::native_dropout_backward", native_dropout_backward},
    {"aten::_softmax_backward_data", softmax_backward},
    {"aten::_log_softmax_backward_data", log_softmax_backward},
};

}  // namespace

std::span<const DecompositionRow> activation_backward_rows() { return kRows; }

}  // namespace toroid
