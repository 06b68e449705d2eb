// Gradients of distances between rows, |v|_p of their differences v.
//
//   d |v|_p / dv = sign(v) * (|v| / |v|_p)^(p - 1)
//
// Rows that coincide have no direction: no gradient. p is 0 or more, infinity too. The gradient has the dtype of what it is of.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// Of x1 [B…, P, M], over the rows of x2 [B…, R, M]: `grad` and `distances` are [B…, P, R].
Tensor cdist_backward(Tensor grad, Tensor x1, Tensor x2, double p, Tensor distances);

// Of x [n, M] where `grad` and `distances` are those of pairs (i, j) with i < j, in the order (0, 1), (0, 2), …, (1, 2), ….
Tensor pdist_backward(Tensor grad, Tensor x, double p, Tensor distances);

}  // namespace toroid::formula
