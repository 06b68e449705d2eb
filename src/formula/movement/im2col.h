// Windows of images as columns of a matrix, and back.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// An entry for the height and one for the width.
struct BlockGeometry {
  Sizes kernel, dilation, padding, stride;
};

// [N, C, H, W] -> [N, C*kh*kw, oh*ow], or without N.
Tensor im2col(Tensor x, const BlockGeometry& geometry);

// [N, C*kh*kw, oh*ow] -> [N, C, H, W] for `out` = {H, W}, or without N: what overlaps is summed.
Tensor col2im(Tensor x, const Sizes& out, const BlockGeometry& geometry);

}  // namespace toroid::formula
