// Activation functions, element by element.
//
// x has any shape and any real dtype. Unless said otherwise the result has x's shape and floating dtype (F32 for integers and Bool), and is
// computed in F32 where x is F16 or BF16, rounded once. Throws Error{Unsupported} for complex x.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// ---- what only chooses: in x's own dtype, integers too ----------------------------------------------------------------

Tensor relu(Tensor x);                                             // max(x, 0)
Tensor relu6(Tensor x);                                            // min(max(x, 0), 6)
Tensor hardtanh(Tensor x, const Scalar& low, const Scalar& high);  // min(max(x, low), high)
// x where it is above `threshold` or NaN, else `value`.
Tensor threshold(Tensor x, const Scalar& threshold, const Scalar& value);

// ---- sigmoids and their products --------------------------------------------------------------------------------------

// x Phi(x) for the normal distribution's Phi (Hendrycks and Gimpel, 2016): x/2 (1 + erf(x/sqrt 2)), or approximated by
// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
enum class GeluApproximation { None, Tanh };
Tensor gelu(Tensor x, GeluApproximation approximation);

Tensor silu(Tensor x);         // x sigmoid(x), also called swish
Tensor mish(Tensor x);         // x tanh(log(1 + e^x)) (Misra, 2019)
Tensor log_sigmoid(Tensor x);  // log(sigmoid(x)) without overflow
// log(1 + e^(beta x))/beta, or x where beta x exceeds `threshold`.
Tensor softplus(Tensor x, double beta, double threshold);
Tensor hardsigmoid(Tensor x);  // min(max(x + 3, 0), 6)/6
Tensor hardswish(Tensor x);    // x hardsigmoid(x) (Howard et al., 2019)
// The first half of dim `dim` times the sigmoid of the second half (Dauphin et al., 2016): that dim of the result is half as long. Throws
// Error{InvalidModel} when it is odd.
Tensor glu(Tensor x, int64_t dim);

// ---- by the sign ------------------------------------------------------------------------------------------------------

// scale (x where x > 0, else alpha (e^(input_scale x) - 1)) (Clevert et al., 2015)
Tensor elu(Tensor x, double alpha, double scale, double input_scale);
Tensor celu(Tensor x, double alpha);  // elu with input_scale 1/alpha (Barron, 2017)
Tensor selu(Tensor x);                // elu whose fixed point has mean 0 and variance 1 (Klambauer et al., 2017)
Tensor leaky_relu(Tensor x, const Scalar& negative_slope);
// x where x > 0, else slope x (He et al., 2015). `slope`, brought to x's dtype, broadcasts against x.
Tensor prelu(Tensor x, Tensor slope);
// … and a slope of one element, or one for each element of dim 1 (dim 0 of a vector).
Tensor prelu_of_channels(Tensor x, Tensor slope);

// ---- what shrinks -----------------------------------------------------------------------------------------------------

// 0 in [-lambda, lambda], else x. NaN lies within no interval and passes.
Tensor hardshrink(Tensor x, double lambda);
// 0 in [-lambda, lambda], else x brought nearer to 0 by lambda, which is rounded to x's dtype first. NaN passes.
Tensor softshrink(Tensor x, double lambda);

}  // namespace toroid::formula
