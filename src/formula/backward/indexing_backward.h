// Gradients of views, of selections by index or mask, and of running products.
//
// A view's gradient is read back: the element that the view shows, else zero. Indices that may name an element twice are scattered. `sizes`
// are those of what was viewed or selected from, and so are the gradient's, in grad's dtype. Throws Error{InvalidModel} where `grad` has
// other sizes than the view.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// ---- views ------------------------------------------------------------------------------------------------------------

// Positions may be negative and count from the end.
Tensor select_backward(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr index);
Tensor slice_backward(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr start, sym::Expr step);
// Of the diagonal where the position along dim2 is that along dim1 plus `offset`, which is the last dim of `grad`.
Tensor diagonal_backward(Tensor grad, const Sizes& sizes, int64_t offset, int64_t dim1, int64_t dim2);
Tensor trace_backward(Tensor grad, const Sizes& sizes);
// Of windows of `size` elements, `step` apart along `dim`: each element sums those that it is in. `grad` has a last dim of `size` more.
Tensor unfold_backward(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr size, sym::Expr step);

// ---- selections -------------------------------------------------------------------------------------------------------

// Of elements that a reduction or a sort chose along `dim`: `grad` and `indices` have that dim with one place for each choice.
Tensor chosen_backward(Tensor grad, const Sizes& sizes, int64_t dim, Tensor indices);

// Of the source of masked_scatter, whose k-th element went to the k-th true one of the mask, with `sizes`.
Tensor masked_scatter_backward(Tensor grad, Tensor mask, const Sizes& sizes);

// ---- scans ------------------------------------------------------------------------------------------------------------

// Of y = cumprod(x) along `dim`, in x's dtype.
Tensor cumprod_backward(Tensor grad, Tensor x, int64_t dim, Tensor y);

}  // namespace toroid::formula
