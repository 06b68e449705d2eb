// Windows of the poolings, shared by the forward operators and their gradients.
#pragma once

#include <vector>

#include "formula/basics/windows.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// -count, …, -1.
Dims last_dims(size_t count);

// A vector along the dim that is `from_end` dims before the last, 1 elsewhere: broadcasts against [.., o…].
Tensor along(Tensor vector, size_t from_end);

// `total` over `count` elements: integers divide as C does.
Tensor divided(Tensor total, Tensor count);

// The windows over the last dims of x that the arguments kernel_size, stride, padding, dilation (where there is one) and
// ceil_mode describe. Throws Error{InvalidModel} when they do not fit x.
std::vector<Window> pool_windows(Tensor x, const Args& a);

// What an average over each window divides by, I64: divisor_override or the number of elements, which broadcasts
// against [.., o…].
Tensor average_divisor(const Args& a, Builder& b, const std::vector<Window>& windows);

// ---- maxima ---------------------------------------------------------------------------------------------------------

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

// ---- adaptive windows -----------------------------------------------------------------------------------------------

// Window o of `count` covers [floor(o*input/count), ceil((o+1)*input/count)): lengths differ by at most one or two.
//
// Element i is covered by the windows [floor(i*count/input), ceil((i+1)*count/input)): the adaptive window of i when
// input and count change places.
struct AdaptiveWindow {
  sym::Expr input, count, longest;
  bool even;  // all windows are `longest` long and do not overlap
};

AdaptiveWindow adaptive_window(sym::Expr input, sym::Expr count);

// One for each of the last out.size() dims of x.
std::vector<AdaptiveWindow> adaptive_windows(Tensor x, const Sizes& out);

// [.., i…] -> [.., o…, k…]; `fill` beyond a window's length.
Tensor adaptive_view(Tensor x, const std::vector<AdaptiveWindow>& windows, Scalar fill);

// [.., i, ..] -> [.., o, .., k] along one dim of x, whose size is window.input.
Tensor adaptive_view_along(Tensor x, size_t dim, const AdaptiveWindow& window, Scalar fill);

// The number of elements of each window, I64; broadcasts against [.., o…].
Tensor adaptive_count(Builder& b, const std::vector<AdaptiveWindow>& windows);

}  // namespace toroid
