#include "formula/nn/activation.h"

#include <numbers>

#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "graph/number.h"

namespace toroid::formula {
namespace {

template <class F>
Tensor activation(Tensor x, F f) {
  return compute_wide(require_real(x), f);
}

}  // namespace

Tensor relu(Tensor x) { return maximum(require_real(x), 0); }
Tensor relu6(Tensor x) { return minimum(maximum(require_real(x), 0), 6); }

Tensor hardtanh(Tensor x, const Scalar& low, const Scalar& high) {
  require_real(x);
  return minimum(maximum(x, number_like(x, low)), number_like(x, high));
}

// NaN is not below the threshold and passes.
Tensor threshold(Tensor x, const Scalar& threshold, const Scalar& value) {
  require_real(x);
  return where(x <= number_like(x, threshold), number_like(x, value), x);
}

Tensor gelu(Tensor x, GeluApproximation approximation) {
  if (approximation == GeluApproximation::None) {
    return activation(x, [](Tensor x) { return x * 0.5 * (1.0 + erf(x * (std::numbers::sqrt2 / 2))); });
  }
  return activation(x, [](Tensor x) {
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
    // (1 + tanh u) / 2 as sigmoid(2 u), which loses nothing where tanh u is near -1.
    return x * sigmoid((x + square(x) * x * 0.044715) * (2 * scale));
  });
}

Tensor silu(Tensor x) {
  return activation(x, [](Tensor x) { return x * sigmoid(x); });
}

Tensor mish(Tensor x) {
  return activation(x, [](Tensor x) {
    Tensor softplus = maximum(x, 0) + log1p(exp(-abs(x)));  // log(1 + e^x) without overflow
    return x * tanh(softplus);
  });
}

Tensor log_sigmoid(Tensor x) {
  return activation(x, [](Tensor x) { return minimum(x, 0) - log1p(exp(-abs(x))); });
}

Tensor softplus(Tensor x, double beta, double threshold) {
  return activation(x, [&](Tensor x) { return where(x * beta > threshold, x, log1p(exp(x * beta)) / beta); });
}

Tensor hardsigmoid(Tensor x) {
  return activation(x, [](Tensor x) { return minimum(maximum(x + 3.0, 0), 6) / 6.0; });
}

Tensor hardswish(Tensor x) {
  return activation(x, [](Tensor x) { return x * minimum(maximum(x + 3.0, 0), 6) / 6.0; });
}

Tensor glu(Tensor x, int64_t dim) {
  Builder& b = require_real(x).builder();
  dim = b.wrap_dim(dim, x.rank());
  const sym::Expr half = sym::floor_div(x.size(dim), 2);
  b.require_equal(half * 2, x.size(dim), "glu");
  return compute_wide(x, [&](Tensor t) { return b.slice(t, dim, 0, half) * sigmoid(b.slice(t, dim, half, half)); });
}

Tensor elu(Tensor x, double alpha, double scale, double input_scale) {
  return activation(x, [&](Tensor x) { return where(x > 0, x * scale, expm1(x * input_scale) * (alpha * scale)); });
}

Tensor celu(Tensor x, double alpha) { return elu(x, alpha, 1, 1 / alpha); }

Tensor selu(Tensor x) { return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1); }

Tensor leaky_relu(Tensor x, const Scalar& negative_slope) {
  return activation(x, [&](Tensor x) { return where(x > 0, x, x * number_like(x, negative_slope)); });
}

Tensor prelu(Tensor x, Tensor slope) {
  return activation(x, [&](Tensor x) { return where(x > 0, x, x * x.builder().cast(slope, x.dtype())); });
}

Tensor prelu_of_channels(Tensor x, Tensor slope) {
  return activation(x, [&](Tensor x) {
    Builder& b = x.builder();
    Sizes sizes(static_cast<size_t>(x.rank()), 1);
    if (x.rank() > 1) sizes[1] = slope.numel();
    if (x.rank() == 1 && !slope.numel().is_const(1)) sizes[0] = slope.numel();
    Tensor shaped = b.reshape(b.cast(slope, x.dtype()), sizes);
    return where(x > 0, x, x * shaped);
  });
}

Tensor hardshrink(Tensor x, double lambda) {
  return activation(x, [&](Tensor x) { return where((x >= -lambda) & (x <= lambda), 0, x); });
}

Tensor softshrink(Tensor x, double lambda) {
  if (is_reduced_float(x.dtype())) lambda = rounded_to(x.dtype(), lambda);
  return activation(x, [&](Tensor x) { return where(x > lambda, x - lambda, where(x < -lambda, x + lambda, where(isnan(x), x, 0))); });
}

}  // namespace toroid::formula
