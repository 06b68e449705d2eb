// Sums and moments of F32 with results in F64, for formulas that go on with them: a mean, a norm or a deviation is rounded once, at its end. Adding
// costs the same, as kernels keep their totals in double (docs/accuracy.md).
#pragma once

#include <algorithm>

#include "graph/builder.h"

namespace toroid {

// Sum or MeanM2 of x, F32 or F64, with results in F64.
inline std::vector<Tensor> reduce_in_f64(ReduceOp op, Tensor x, const Dims& dims) {
  Builder& b = x.builder();
  if (x.dtype() != DType::F32) return b.reduce(op, x, dims);
  const Dims over = b.wrap_dims(dims, x.rank());
  TensorType type{.dtype = DType::F64};
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (!std::binary_search(over.begin(), over.end(), d)) type.sizes.push_back(x.size(d));
  }
  return b.emit(Reduce{op, {over.begin(), over.end()}}, {x}, std::vector<TensorType>(op == ReduceOp::MeanM2 ? 2 : 1, type));
}

inline Tensor total(Tensor x, const Dims& dims) { return reduce_in_f64(ReduceOp::Sum, x, dims)[0]; }

}  // namespace toroid
