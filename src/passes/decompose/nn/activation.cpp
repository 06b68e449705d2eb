// Activation functions, as formulas in F32 or the input's own wider dtype.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "graph/number.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

template <class F>
std::vector<Tensor> activation(const Args& a, F f) {
  return {compute_wide(require_real(a.tensor("self")), f)};
}

// Integers stay integers: relu, hardtanh and threshold only choose.
std::vector<Tensor> relu(Decomposer&, const Args& a) { return {maximum(require_real(a.tensor("self")), 0)}; }
std::vector<Tensor> relu6(Decomposer&, const Args& a) { return {minimum(maximum(require_real(a.tensor("self")), 0), 6)}; }

std::vector<Tensor> hardtanh(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {minimum(maximum(x, number_like(x, a.scalar("min_val"))), number_like(x, a.scalar("max_val")))};
}

// NaN is not below the threshold and passes.
std::vector<Tensor> threshold(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {where(x <= number_like(x, a.scalar("threshold")), number_like(x, a.scalar("value")), x)};
}

std::vector<Tensor> gelu(Decomposer&, const Args& a) {
  const std::string approximate = a.text("approximate");
  if (approximate == "none") {
    return activation(a, [](Tensor x) { return x * 0.5 * (1.0 + erf(x * (std::numbers::sqrt2 / 2))); });
  }
  if (approximate != "tanh") throw Error(ErrorKind::InvalidModel, fmt::format("gelu approximation '{}'", approximate));
  return activation(a, [](Tensor x) {
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
    // (1 + tanh u) / 2 as sigmoid(2 u), which loses nothing where tanh u is near -1.
    return x * sigmoid((x + square(x) * x * 0.044715) * (2 * scale));
  });
}

std::vector<Tensor> silu(Decomposer&, const Args& a) {
  return activation(a, [](Tensor x) { return x * sigmoid(x); });
}

// log(1 + e^x) without overflow.
Tensor softplus_of(Tensor x) { return maximum(x, 0) + log1p(exp(-abs(x))); }

std::vector<Tensor> mish(Decomposer&, const Args& a) {
  return activation(a, [](Tensor x) { return x * tanh(softplus_of(x)); });
}

// Above the threshold softplus is its argument.
std::vector<Tensor> softplus(Decomposer&, const Args& a) {
  const double beta = a.number("beta"), threshold = a.number("threshold");
  return activation(a, [&](Tensor x) { return where(x * beta > threshold, x, log1p(exp(x * beta)) / beta); });
}

Tensor log_sigmoid_of(Tensor x) { return minimum(x, 0) - log1p(exp(-abs(x))); }
std::vector<Tensor> log_sigmoid(Decomposer&, const Args& a) { return activation(a, log_sigmoid_of); }

// The second result only helps PyTorch's backward on the CPU: exp(-|x|).
std::vector<Tensor> log_sigmoid_forward(Decomposer& d, const Args& a) {
  Tensor buffer = activation(a, [](Tensor x) { return exp(-abs(x)); })[0];
  if (d.recorded.size() == 2 && d.recorded[1].numel().is_const(0)) buffer = d.b.full(d.recorded[1].sizes, buffer.dtype(), 0.0);
  return {activation(a, log_sigmoid_of)[0], buffer};
}

// scale * (x where x > 0, else alpha * (e^(input_scale * x) - 1))
Tensor elu_of(Tensor x, double alpha, double scale, double input_scale) {
  return where(x > 0, x * scale, expm1(x * input_scale) * (alpha * scale));
}
std::vector<Tensor> elu(Decomposer&, const Args& a) {
  return activation(a, [&](Tensor x) { return elu_of(x, a.number("alpha"), a.number("scale"), a.number("input_scale")); });
}
std::vector<Tensor> celu(Decomposer&, const Args& a) {
  const double alpha = a.number("alpha");
  return activation(a, [&](Tensor x) { return elu_of(x, alpha, 1, 1 / alpha); });
}
std::vector<Tensor> selu(Decomposer&, const Args& a) {
  // The fixed point of mean 0 and variance 1 (Klambauer et al., 2017).
  return activation(a, [](Tensor x) { return elu_of(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1); });
}

std::vector<Tensor> leaky_relu(Decomposer&, const Args& a) {
  return activation(a, [&](Tensor x) { return where(x > 0, x, x * number_like(x, a.scalar("negative_slope"))); });
}

// One slope for all or one a channel (dim 1).
std::vector<Tensor> prelu(Decomposer& d, const Args& a) {
  Tensor slope = a.tensor("weight");
  return activation(a, [&](Tensor x) {
    Sizes sizes(static_cast<size_t>(x.rank()), 1);
    if (x.rank() > 1) sizes[1] = slope.numel();
    if (x.rank() == 1 && !slope.numel().is_const(1)) sizes[0] = slope.numel();
    Tensor shaped = d.b.reshape(d.b.cast(slope, x.dtype()), sizes);
    return where(x > 0, x, x * shaped);
  });
}
std::vector<Tensor> prelu_kernel(Decomposer& d, const Args& a) {
  Tensor slope = a.tensor("weight");
  return activation(a, [&](Tensor x) { return where(x > 0, x, x * d.b.cast(slope, x.dtype())); });
}

std::vector<Tensor> hardsigmoid(Decomposer&, const Args& a) {
  return activation(a, [](Tensor x) { return minimum(maximum(x + 3.0, 0), 6) / 6.0; });
}
std::vector<Tensor> hardswish(Decomposer&, const Args& a) {
  return activation(a, [](Tensor x) { return x * minimum(maximum(x + 3.0, 0), 6) / 6.0; });
}

// NaN lies within no interval and passes.
std::vector<Tensor> hardshrink(Decomposer&, const Args& a) {
  const double lambda = a.number("lambd");
  return activation(a, [&](Tensor x) { return where((x >= -lambda) & (x <= lambda), 0, x); });
}
std::vector<Tensor> softshrink(Decomposer&, const Args& a) {
  const DType dtype = a.tensor("self").dtype();
  const double lambda = is_reduced_float(dtype) ? rounded_to(dtype, a.number("lambd")) : a.number("lambd");
  return activation(a, [&](Tensor x) { return where(x > lambda, x - lambda, where(x < -lambda, x + lambda, where(isnan(x), x, 0))); });
}

// The first half of a dim, gated by the second.
std::vector<Tensor> glu(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  const sym::Expr half = sym::floor_div(x.size(dim), 2);
  d.b.require_equal(half * 2, x.size(dim), "glu");
  return {compute_wide(x, [&](Tensor t) { return d.b.slice(t, dim, 0, half) * sigmoid(d.b.slice(t, dim, half, half)); })};
}

constexpr DecompositionRow kRows[] = {
    {"aten::relu", relu},
    {"aten::relu6", relu6},
    {"aten::hardtanh", hardtanh},
    {"aten::threshold", threshold},
    {"aten::gelu", gelu},
    {"aten::silu", silu},
    {"aten::mish", mish},
    {"aten::softplus", softplus},
    {"aten::log_sigmoid", log_sigmoid},
    {"aten::log_sigmoid_forward", log_sigmoid_forward},
    {"aten::elu", elu},
    {"aten::celu", celu},
    {"aten::selu", selu},
    {"aten::leaky_relu", leaky_relu},
    {"aten::prelu", prelu},
    {"aten::_prelu_kernel", prelu_kernel},
    {"aten::hardsigmoid", hardsigmoid},
    {"aten::hardswish", hardswish},
    {"aten::hardshrink", hardshrink},
    {"aten::softshrink", softshrink},
    {"aten::glu", glu},
};

}  // namespace

std::span<const DecompositionRow> activation_rows() { return kRows; }

}  // namespace toroid
