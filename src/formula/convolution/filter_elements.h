// Elements of a convolution's filters that meet the margin more often than the image, as with a dilation near the image's size or beyond
// it: what they are multiplied with is zero.
#pragma once

#include "formula/convolution/convolution.h"

namespace toroid::formula {

// The filters without the elements that no result meets the image with, as many at both ends of a dim; `geometry` gets the padding that the
// others need. x [N, C, i…], weight [O, C/groups, k…]; the geometry has an entry for each dim.
Tensor without_elements_outside(Tensor x, Tensor weight, ConvolutionGeometry& geometry);

// The convolution, without a bias, as a sum over elements: each is a product with that part of the image which it meets. An undefined
// Tensor where that spares less than half of the multiplications, or few, where the terms would be much memory, for 16-bit floats, whose
// sums would be rounded more than once, and where sizes are not known.
Tensor convolution_by_elements(Tensor x, Tensor weight, const ConvolutionGeometry& geometry);

}  // namespace toroid::formula
