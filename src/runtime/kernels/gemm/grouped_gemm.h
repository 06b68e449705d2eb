// Products by groups (library/grouped_sizes.h) on the kernels of single products: each group's rows alone meet its matrix, whose packed
// form is kept when it is constant.
#pragma once

#include "runtime/kernels/registry/library.h"

namespace toroid {

// Any dtype that "matmul" has; any strides but of the output, which is contiguous.
void run_grouped_product(const KernelCall& call);

}  // namespace toroid
