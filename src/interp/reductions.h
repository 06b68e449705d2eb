// Operations that combine elements along dims: reductions, scans, sorting. Sums and products of floats are kept in
// double and rounded once at the end; integers wrap.
#pragma once

#include <span>
#include <vector>

#include "tensor/host_tensor.h"
#include "tensor/scalar_op.h"

namespace toroid {

// `dims` ascend. One result, two for MeanM2 (mean, sum of squared differences). Throws Error{InvalidInput} for the
// least, greatest or their index among no elements.
std::vector<HostTensor> reduce(ReduceOp op, const HostTensor& in, std::span<const int> dims);
// One result, two for Max and Min (value, index).
std::vector<HostTensor> scan(ScanOp op, const HostTensor& in, int dim);
// Values and indices; always stable.
std::vector<HostTensor> sort(const HostTensor& in, int dim, bool descending);

}  // namespace toroid
