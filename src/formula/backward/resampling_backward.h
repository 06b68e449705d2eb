// Gradients of resampling. Each dim is linear: y[o] = sum over i of W[o, i] * x[i], so dx[i] = sum over o of W[o, i] * g[o].
#pragma once

#include <vector>

#include "formula/nn/resampling_taps.h"

namespace toroid::formula {

// As formula/nn/resampling.h has them: the nearest element with a shift of 0 or of 0.5, weights without a filter that is widened, and with
// one.
enum class Upsampling { Nearest, NearestExact, Linear, Cubic, FilteredLinear, FilteredCubic, Lanczos };

// `grad`, [N, C, o…], is the gradient of x [N, C, i…] resampled along the dims that `extents` describe. The result has x's sizes and grad's
// dtype; F16 and BF16 are summed in F32. `align_corners` does not concern nearest ones. Throws Error{Unsupported} for filters over symbolic
// sizes, and where a dim is so large that looking at each of its elements takes long.
Tensor upsample_backward(Tensor grad, const std::vector<Extent>& extents, Upsampling kind, bool align_corners);

}  // namespace toroid::formula
