// Tensors with a border around them.
//
// x has any dtype and shape. `pad` lists amounts in pairs, before and after, from the last dim on; dims that it does not reach stay as they
// are. Throws Error{InvalidModel} when it is odd or longer than twice the rank. Borders that come from x itself are index arithmetic, as
// views are.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// `value` around x. Amounts that are known to be negative crop.
Tensor pad_constant(Tensor x, Sizes pad, const Scalar& value);
// x mirrored at its edges, which are not repeated: 2 1 | 0 1 2 3 | 2 1. Amounts are 0 or more and below the dim's size.
Tensor pad_reflect(Tensor x, const Sizes& pad);
// The edges: 0 0 | 0 1 2 3 | 3 3.
Tensor pad_replicate(Tensor x, const Sizes& pad);
// x going around: 2 3 | 0 1 2 3 | 0 1. Amounts that are known to be negative crop, and what is left goes around.
Tensor pad_circular(Tensor x, const Sizes& pad);

}  // namespace toroid::formula
