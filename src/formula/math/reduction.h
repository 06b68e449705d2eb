// Sums, means, variances and norms over dims.
//
// `dims` are wrapped and vanish; no dims means all. Unless said otherwise x is F32 or F64 (wide() of others), and so is the result. What
// follows from a sum or from moments alone is computed in F64 and rounded once, at the end.
#pragma once

#include "formula/basics/over_dims.h"

namespace toroid::formula {

Tensor nansum(Tensor x, const Dims& dims);         // of what is not NaN; x of any real dtype
Tensor nanmean(Tensor x, const Dims& dims);        // … the mean
Tensor count_nonzero(Tensor x, const Dims& dims);  // I64; x of any real dtype

// x, of any real dtype, summed back to the sizes that were broadcast to its own. The result is I64 for integers. Throws Error{InvalidModel}
// when x has fewer dims.
Tensor sum_to_size(Tensor x, const Sizes& sizes);

// Of ArgMax and ArgMin: the first position along the dim, or over several or no dims into the flattened x; I64. x of any real dtype.
Tensor arg_extremum(ReduceOp op, Tensor x, const OverDims& over);

// Both F64. The variance divides by the number of elements less `correction`, at least 0.
struct Spread {
  Tensor variance, mean;
};
Spread spread(Tensor x, const Dims& dims, const Scalar& correction);

// (sum |x|^p)^(1/p), with the limits of p at 0 and infinity.
Tensor vector_norm(Tensor x, double p, const Dims& dims);
// … over all dims but `kept`, with size 1.
Tensor norm_except_dim(Tensor x, double p, int64_t kept);

// Scales each slice along a dim down to a p-norm of `limit` where that is larger.
Tensor renorm(Tensor x, double p, int64_t dim, double limit);

}  // namespace toroid::formula
