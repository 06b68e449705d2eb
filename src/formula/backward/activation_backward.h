// Gradients of activations and of softmax.
//
// `grad` is the gradient of the result; x is the input and y the result of the forward function, of which each takes the one in whose terms
// the derivative is cheaper. All are F32 or F64 tensors of one dtype (wide() of others), and so is the gradient of x that is returned.
#pragma once

#include <optional>

#include "formula/nn/activation.h"

namespace toroid::formula {

Tensor gelu_backward(Tensor grad, Tensor x, GeluApproximation approximation);
Tensor threshold_backward(Tensor grad, Tensor x, double threshold);
Tensor tanh_backward(Tensor grad, Tensor y);
Tensor sigmoid_backward(Tensor grad, Tensor y);
Tensor silu_backward(Tensor grad, Tensor x);
Tensor mish_backward(Tensor grad, Tensor x);
Tensor hardswish_backward(Tensor grad, Tensor x);
Tensor hardsigmoid_backward(Tensor grad, Tensor x);
Tensor hardtanh_backward(Tensor grad, Tensor x, double low, double high);
Tensor leaky_relu_backward(Tensor grad, Tensor x, double slope);
Tensor elu_backward(Tensor grad, Tensor x, double alpha, double scale, double input_scale);
Tensor elu_backward_of_result(Tensor grad, Tensor y, double alpha, double scale, double input_scale);
Tensor softplus_backward(Tensor grad, Tensor x, double beta, double threshold);
Tensor log_sigmoid_backward(Tensor grad, Tensor x);
// Of hardshrink and softshrink.
Tensor shrink_backward(Tensor grad, Tensor x, double lambda);
// Of x with a slope that broadcasts, and of the slope, before that is summed over what shares one.
Tensor prelu_backward(Tensor grad, Tensor x, Tensor slope);
Tensor prelu_slope_backward(Tensor grad, Tensor x);
// Of log(x/(1 - x)). Outside [eps, 1 - eps] x was clamped; without eps, outside [0, 1] there is no logit.
Tensor logit_backward(Tensor grad, Tensor x, std::optional<double> eps);

// ---- along a dim ------------------------------------------------------------------------------------------------------

// Of x = [a, b] along `dim`, where glu(x) = a sigmoid(b).
Tensor glu_backward(Tensor grad, Tensor x, int64_t dim);
// How glu's gradient `grad_x` changes as x changes by dx and the gradient of the result by dgrad.
Tensor glu_backward_jvp(Tensor grad_x, Tensor x, Tensor dgrad, Tensor dx, int64_t dim);

// `dim` may be negative; y may have rank 0.
Tensor softmax_backward(Tensor grad, Tensor y, int64_t dim);
Tensor log_softmax_backward(Tensor grad, Tensor y, int64_t dim);
// Where `mask` (Bool, of y's sizes) is true there is no element.
Tensor masked_softmax_backward(Tensor grad, Tensor y, Tensor mask, int64_t dim);

}  // namespace toroid::formula
