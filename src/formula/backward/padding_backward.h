// Gradients of padding that mirrors or repeats the tensor, one dim after the other: each element sums the padded
// elements that show it. A mirrored border is a flipped slice of the gradient, moved to where it came from.
//
//   0 1 2 3 padded by 2 and 1:   2 1 | 0 1 2 3 | 2      =>   dx = g[2:6] + pad(flip(g[0:2]), 1, 1) + pad(g[6:7], 2, 1)
//
// `grad` is the gradient of a padded x, `pad` its amounts as formula/movement/padding.h has them, of which negative ones crop. The result
// has x's sizes and dtype; F16 and BF16 are summed in F32.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

Tensor pad_reflect_backward(Tensor grad, Tensor x, const Sizes& pad);
Tensor pad_replicate_backward(Tensor grad, Tensor x, const Sizes& pad);

}  // namespace toroid::formula
