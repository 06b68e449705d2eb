// Sorting along a dim.
#pragma once

#include "runtime/kernels/registry/library.h"

namespace toroid {

// Any dtype, contiguous. integers: dim, descending, stable (it always is). Outputs: values, positions (I64); NaN is the largest.
void run_sort(const KernelCall& call);

}  // namespace toroid
