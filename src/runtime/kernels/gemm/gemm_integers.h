// Matrix products of integers, which wrap in their own dtype as PyTorch's do.
#pragma once

#include "runtime/kernels/registry/plan.h"

namespace toroid {

// "matmul" of two operands and a result of one integer dtype, or of Bool, where it says whether any product is true. Sums are of 32 bits,
// or of 64 for I64: what they wrap to ends with the bits of the narrower dtype.
bool can_multiply_integers(const KernelCall& call);
std::unique_ptr<const KernelPlan> plan_matmul_integers(const KernelCall& call);

}  // namespace toroid
