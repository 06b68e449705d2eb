// Sums and moments of F32 with results in F64, for formulas that go on with them: a mean, a norm or a deviation is rounded once, at its
// end. Adding costs the same, as kernels keep their totals in double (docs/accuracy.md).
#pragma once

#include "graph/builder.h"

namespace toroid {

// Sum or MeanM2 of x, F32 or F64, with results in F64.
inline std::vector<Tensor> reduce_in_f64(ReduceOp op, Tensor x, const Dims& dims) { return x.builder().reduce(op, x, dims, DType::F64); }

inline Tensor total(Tensor x, const Dims& dims) { return reduce_in_f64(ReduceOp::Sum, x, dims)[0]; }

}  // namespace toroid
