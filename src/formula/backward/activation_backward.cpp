#include "formula/backward/activation_backward.h"

#include <cmath>
#include <numbers>

#include "formula/basics/operators.h"

namespace toroid::formula {

Tensor gelu_backward(Tensor grad, Tensor x, GeluApproximation approximation) {
  if (approximation == GeluApproximation::None) {
    // In terms that it shares with gelu itself.
    Tensor cumulative = 0.5 * (1.0 + erf(x * (std::numbers::sqrt2 / 2)));
    Tensor density = exp(-0.5 * x * x) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
    return grad * (cumulative + x * density);
  }
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
  // As gelu itself: x sigmoid(2 u), with twice the slope of u.
  Tensor s = sigmoid((x + square(x) * x * cubic) * (2 * scale));
  Tensor slope = 2 * scale * (square(x) * (3 * cubic) + 1.0);
  return grad * (s + x * s * (1.0 - s) * slope);
}

Tensor threshold_backward(Tensor grad, Tensor x, double threshold) { return where(x <= threshold, 0, grad); }
Tensor tanh_backward(Tensor grad, Tensor y) { return grad * (1.0 - y * y); }
Tensor sigmoid_backward(Tensor grad, Tensor y) { return grad * (1.0 - y) * y; }

Tensor silu_backward(Tensor grad, Tensor x) {
  Tensor s = sigmoid(x);
  return grad * s * (x * (1.0 - s) + 1.0);
}

Tensor mish_backward(Tensor grad, Tensor x) {
  Tensor t = tanh(maximum(x, 0) + log1p(exp(-abs(x))));
  return grad * (t + x * sigmoid(x) * (1.0 - t * t));
}

Tensor hardswish_backward(Tensor grad, Tensor x) { return where(x <= -3.0, 0, where(x < 3.0, grad * (x / 3.0 + 0.5), grad)); }
Tensor hardsigmoid_backward(Tensor grad, Tensor x) { return where((x > -3.0) & (x < 3.0), grad / 6.0, 0); }
Tensor hardtanh_backward(Tensor grad, Tensor x, double low, double high) { return where((x <= low) | (x >= high), 0, grad); }
Tensor leaky_relu_backward(Tensor grad, Tensor x, double slope) { return where(x > 0, grad, grad * slope); }

Tensor elu_backward(Tensor grad, Tensor x, double alpha, double scale, double input_scale) {
  Tensor negative = grad * (input_scale * alpha * scale) * exp(x * input_scale);
  return where(x <= 0, negative, grad * scale);
}
Tensor elu_backward_of_result(Tensor grad, Tensor y, double alpha, double scale, double input_scale) {
  Tensor negative = grad * input_scale * (y + alpha * scale);
  return where(y <= 0, negative, grad * scale);
}

Tensor softplus_backward(Tensor grad, Tensor x, double beta, double threshold) {
  return where(x * beta > threshold, grad, grad * sigmoid(x * beta));
}
Tensor log_sigmoid_backward(Tensor grad, Tensor x) { return grad * sigmoid(-x); }
Tensor shrink_backward(Tensor grad, Tensor x, double lambda) { return where((x >= -lambda) & (x <= lambda), 0, grad); }

Tensor prelu_backward(Tensor grad, Tensor x, Tensor slope) { return where(x > 0, grad, grad * slope); }
Tensor prelu_slope_backward(Tensor grad, Tensor x) { return where(x > 0, 0, grad * x); }

Tensor logit_backward(Tensor grad, Tensor x, std::optional<double> eps) {
  const double low = eps.value_or(0);
  Tensor outside = (x < low) | (x > 1 - low);
  return where(outside, eps ? 0 : std::nan(""), grad / (x * (1.0 - x)));
}

// ---- along a dim ----------------------------------------------------------------------------------------------------

namespace {

struct Halves {
  Tensor a, b;
};
Halves halves_of(Tensor x, int64_t dim) {
  Builder& b = x.builder();
  dim = b.wrap_dim(dim, x.rank());
  const sym::Expr half = sym::floor_div(x.size(dim), 2);
  return {b.slice(x, dim, 0, half), b.slice(x, dim, half, half)};
}

Tensor sum_along(Tensor x, int64_t dim) { return x.rank() == 0 ? x : x.builder().keep(x.builder().sum(x, {dim}), {dim}); }

}  // namespace

Tensor glu_backward(Tensor grad, Tensor x, int64_t dim) {
  const Halves halves = halves_of(x, dim);
  Tensor gate = sigmoid(halves.b), through = grad * gate;
  return x.builder().cat({through, through * (1.0 - gate) * halves.a}, dim);
}

Tensor glu_backward_jvp(Tensor grad_x, Tensor x, Tensor dgrad, Tensor dx, int64_t dim) {
  const Halves halves = halves_of(x, dim), change = halves_of(dx, dim);
  Tensor grad = halves_of(grad_x, dim).a, gate = sigmoid(halves.b);
  Tensor first = dgrad * gate + grad * (1.0 - gate) * change.b;
  Tensor second = (first * halves.a + grad * (change.a - halves.a * gate * change.b)) * (1.0 - gate);
  return x.builder().cat({first, second}, dim);
}

Tensor softmax_backward(Tensor grad, Tensor y, int64_t dim) { return y * (grad - sum_along(grad * y, dim)); }
Tensor log_softmax_backward(Tensor grad, Tensor y, int64_t dim) { return grad - exp(y) * sum_along(grad, dim); }

Tensor masked_softmax_backward(Tensor grad, Tensor y, Tensor mask, int64_t dim) {
  Tensor shares = where(mask, 0, grad * y);
  return where(mask, 0, y * (grad - sum_along(shares, dim)));
}

}  // namespace toroid::formula
