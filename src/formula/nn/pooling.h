// Average and max pooling, over the last one, two or three dims of x; whatever comes before them is batch.
//
// x has any real dtype, and so has the result; averages of F16 and BF16 are computed in F32, those of integers divide as C does. A window
// may reach into a padding, which counts as 0 for averages (or not at all) and as the lowest value for maxima.
//
//   avg_pool(x, 2x2)  =>  sum(windows(x) [N, C, oh, ow, 2, 2], dims [-2, -1]) / 4
#pragma once

#include <optional>
#include <vector>

#include "formula/basics/windows.h"

namespace toroid::formula {

// An entry for each of the last dims.
struct PoolGeometry {
  Sizes kernel;
  Sizes stride;  // empty: as the kernel
  Sizes padding, dilation;
  bool ceil_mode = false;  // a last window that reaches beyond the padded input counts too
};

// The windows over the last dims of x. Throws Error{InvalidModel} when they do not fit x.
std::vector<Window> pool_windows(Tensor x, const PoolGeometry& geometry);

// What an average over each window divides by.
struct AverageCount {
  std::optional<sym::Expr> divisor;  // given; else the number of elements of the window
  bool include_padding = true;       // … with those of the padding
};
// I64, broadcasts against [.., o…].
Tensor average_divisor(Builder& b, const std::vector<Window>& windows, const AverageCount& count);

Tensor avg_pool(Tensor x, const PoolGeometry& geometry, const AverageCount& count);
Tensor max_pool(Tensor x, const PoolGeometry& geometry);
// {maxima, their flat positions in the plane of the last dims of x, I64}
std::vector<Tensor> max_pool_with_indices(Tensor x, const PoolGeometry& geometry);

// out[.., indices[.., o]] = x[.., o] in planes of the sizes `out`, 0 elsewhere. `indices` has x's shape, and flat positions in the plane.
Tensor max_unpool(Tensor x, Tensor indices, const Sizes& out);

// ---- what poolings and their gradients share --------------------------------------------------------------------------

// A vector along the dim that is `from_end` dims before the last, 1 elsewhere: broadcasts against [.., o…].
Tensor along(Tensor vector, size_t from_end);

// `total` over `count` elements: integers divide as C does.
Tensor divided(Tensor total, Tensor count);

// Along one dim, element k of window o is at input position first[.., o, ..] + k*step.
struct WindowPositions {
  Tensor first;  // I64; broadcasts against [.., o…]
  sym::Expr step, kernel, input;
  bool may_start_outside = false;
};

// From [.., o…, k…]: the maxima, and their flat positions in the input plane.
std::vector<Tensor> max_and_position(Tensor windows, const std::vector<WindowPositions>& dims);

// 0, 1, 2, … over the last dims of these sizes, I64 [size…].
Tensor flat_positions(Builder& b, std::span<const sym::Expr> sizes);

}  // namespace toroid::formula
