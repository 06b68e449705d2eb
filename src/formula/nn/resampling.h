// Resampling of images, signals and volumes: nearest, linear, cubic and antialiased.
//
// x is [N, C, i…], of any dtype for nearest, else floating; an Extent for each dim from the third on says what becomes of it. The result
// has x's dtype; weighted sums of F16 and BF16 are computed in F32. Output position o along a dim stands for position s of the input:
//
//   align_corners   s = o (in - 1)/(out - 1)         the middles of the corner elements stay
//   else            s = (o + 0.5)/factor - 0.5       their outer edges do (half-pixel)
#pragma once

#include <vector>

#include "formula/nn/resampling_taps.h"

namespace toroid::formula {

// The element at floor((o + shift)/factor): with a shift of 0 the one that older frameworks take, with 0.5 the nearest one.
Tensor upsample_nearest(Tensor x, const std::vector<Extent>& extents, double shift);

// Weighs the two neighbours of s along each dim. `by_dims`: one dim after the other, the last one first, where that is less arithmetic: what
// lies between is gathered again, so it comes to be in memory. The results are the same.
Tensor upsample_linear(Tensor x, const std::vector<Extent>& extents, bool align_corners, bool by_dims = false);
// Weighs four neighbours by Keys' cubic kernel of parameter -0.75 (Keys, 1981).
Tensor upsample_cubic(Tensor x, const std::vector<Extent>& extents, bool align_corners, bool by_dims = false);

// One dim after the other, with a filter that is widened where the dim shrinks. Throws Error{Unsupported} when a size is symbolic.
Tensor resample_antialiased(Tensor x, const std::vector<Extent>& extents, bool align_corners, const Filter& filter);

}  // namespace toroid::formula
