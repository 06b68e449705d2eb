// Convolutions in one to three dims, and transposed ones, as one Convolution operation.
#pragma once

#include "formula/quantization/byte_convolutions.h"
#include "graph/builder.h"

namespace toroid::formula {

// A list of one entry stands for every spatial dim.
struct ConvolutionGeometry {
  Sizes stride, padding, dilation;
  Sizes output_padding;  // of transposed convolutions: rows added at the end; empty: 0
  bool transposed = false;
  sym::Expr groups = 1;
};

// What a convolution becomes where it can, as that is quicker.
struct ConvolutionForms {
  // Of dequantised tensors one of integers, or their product (quantization/dequantised_convolution.h).
  ByteConvolutions of_bytes = ByteConvolutions::None;
  bool sums_elements = false;  // where most of the multiplications are with the margin: a sum (filter_elements.h)
};

// The geometry with an entry for each of `spatial` dims in every list. Throws Error{InvalidModel} for lists of another length.
ConvolutionGeometry per_dim(ConvolutionGeometry geometry, size_t spatial);

// Throws Error{InvalidModel} for a stride or dilation below 1 and for a padding below 0.
void require_geometry(const Sizes& stride, const Sizes& dilation, const Sizes& padding);

// x [N, C, i…], or [C, i…] and a result without N; weight [O, C/groups, k…], when transposed [C, O/groups, k…]; bias [O] or undefined. All
// of one floating dtype, which the result has. Throws Error{InvalidModel} where these do not fit.
Tensor convolution(Tensor x, Tensor weight, Tensor bias, ConvolutionGeometry geometry, ConvolutionForms forms = {});

// … with a padding of dilation*(kernel - 1) zeros a dim, so that with a stride of 1 the result is as large as x: of an odd number the end
// takes the extra one. geometry.padding is not read.
Tensor convolution_same(Tensor x, Tensor weight, Tensor bias, ConvolutionGeometry geometry);

}  // namespace toroid::formula
