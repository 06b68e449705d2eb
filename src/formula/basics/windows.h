// Sliding windows over the last dims of a tensor, as views: what pooling, im2col and their like reduce or rearrange.
#pragma once

#include <span>

#include "graph/builder.h"

namespace toroid {

// The windows along one dim: window o covers input positions o*stride - padding + k*dilation for k < kernel.
struct Window {
  sym::Expr input, kernel, stride, padding, dilation;
  sym::Expr count;     // of windows
  sym::Expr overhang;  // how far the last window reaches beyond the padded input (only with ceil_mode)
};

// With `ceil_mode`, a last partial window counts as long as it starts within the input or its left padding.
Window make_window(sym::Expr input, sym::Expr kernel, sym::Expr stride, sym::Expr padding, sym::Expr dilation, bool ceil_mode);

// [.., i…] -> [.., o…, k…] over the last windows.size() dims; what lies outside the input is `fill`.
Tensor windows_of(Tensor x, std::span<const Window> windows, Scalar fill);

// The other way around: for each input position the windows that cover it, [.., o…] -> [.., i…, j…] over the last
// windows.size() dims. Candidate j of input i is window floor((i + padding)/stride) - j; `fill` where there is no such
// window. With dilation, or a stride that does not divide the kernel, some candidates do not cover i: see covers().
Tensor readers_of(Tensor x, std::span<const Window> windows, Scalar fill);

// Whether candidate j of input i covers it, Bool [i…, j…] with sizes of 1 where a dim does not matter; undefined when all
// do. For windows without dilation.
Tensor covers(Builder& b, std::span<const Window> windows);

}  // namespace toroid
