// Gradients of convolutions, as convolutions.
//
// For y = conv(x, w): each element of x is read wherever a transposed convolution of dy with the same weight writes, and
//
//   dw[o, c, k] = sum over n and positions i of dy[n, o, i] * x[n, c, i*stride + k*dilation - padding]
//
// is a convolution of x with dy for weight in which batch and channels change places, and stride and dilation too. For a
// transposed convolution x and dy change roles. Processors have a kernel for it (library/library_ops.h).
#pragma once

#include <array>

#include "formula/convolution/convolution.h"

namespace toroid::formula {

// With the shapes and dtypes of what they are gradients of; undefined where they are not wanted.
struct ConvolutionGradients {
  Tensor x, weight, bias;
};

// Of a target.
struct BackwardForms {
  bool flips_filters = false;         // transposed convolutions are ones with flipped filters, of a stride one for each phase
  bool has_backward_weights = false;  // it has the kernel "convolution.backward_weights"
};

// `grad` is the gradient of convolution(x [N, C, i…], weight, …, geometry). Throws Error{InvalidModel} where `grad` has other sizes than
// that.
ConvolutionGradients convolution_backward(Tensor grad, Tensor x, Tensor weight, ConvolutionGeometry geometry,
                                          const std::array<bool, 3>& wanted, const BackwardForms& forms = {});

}  // namespace toroid::formula
