// Softmax and its logarithm, from the largest element so that nothing overflows.
//
// Written as separate reductions over the dim: they share the loop over rows, and scheduling makes them stages of one kernel. Terms that
// would not be normal numbers are 0: scores that are masked with -100, as shifted windows of images are, would make rows of them, and
// processors take a hundred times as long for each.
//
// x is F32 or F64, of rank 1 or more; `dim` is wrapped. The result has x's shape and dtype.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

Tensor softmax(Tensor x, int64_t dim);      // e^x / sum(e^x)
Tensor log_softmax(Tensor x, int64_t dim);  // x - log(sum(e^x))
// softmax, but rows of nothing but -infinity, masked out entirely, give zeros instead of NaN.
Tensor safe_softmax(Tensor x, int64_t dim);

// log(sum(e^x)) over `dims`, wrapped, which are kept with size 1. For infinite maxima it is that.
Tensor logsumexp(Tensor x, const Dims& dims);

}  // namespace toroid::formula
