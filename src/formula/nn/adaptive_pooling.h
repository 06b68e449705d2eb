// Pooling to given sizes: as many windows as the result has elements, spread over the input.
//
// Works on the last out.size() dims of x; dtypes are those of pooling.h.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// Global pooling is one window: `out` of 1s.
Tensor adaptive_avg_pool(Tensor x, const Sizes& out);
// {maxima, their flat positions in the plane of the last dims of x, I64}
std::vector<Tensor> adaptive_max_pool(Tensor x, const Sizes& out);

// ---- windows ----------------------------------------------------------------------------------------------------------

// Window o of `count` covers [floor(o*input/count), ceil((o+1)*input/count)): lengths differ by at most one or two.
//
// Element i is covered by the windows [floor(i*count/input), ceil((i+1)*count/input)): the adaptive window of i when
// input and count change places.
struct AdaptiveWindow {
  sym::Expr input, count, longest;
  bool even;  // all windows are `longest` long and do not overlap
};

// Throws Error{InvalidModel} for a negative count.
AdaptiveWindow adaptive_window(sym::Expr input, sym::Expr count);

// One for each of the last out.size() dims of x.
std::vector<AdaptiveWindow> adaptive_windows(Tensor x, const Sizes& out);

// [.., i…] -> [.., o…, k…]; `fill` beyond a window's length.
Tensor adaptive_view(Tensor x, const std::vector<AdaptiveWindow>& windows, Scalar fill);

// [.., i, ..] -> [.., o, .., k] along one dim of x, whose size is window.input.
Tensor adaptive_view_along(Tensor x, size_t dim, const AdaptiveWindow& window, Scalar fill);

// The number of elements of each window, I64; broadcasts against [.., o…].
Tensor adaptive_count(Builder& b, const std::vector<AdaptiveWindow>& windows);

}  // namespace toroid::formula
