// Products of floats with a matrix of int4, as models with weight-only quantisation have them: its bytes, two numbers each, are all that is
// read from memory, an eighth of float32's.
#pragma once

#include "runtime/kernels/registry/plan.h"

namespace toroid {

struct Int4Sizes {
  int64_t m, n, k, groups;
  DType rows;
};

// inputs: a [.., K] of F32, BF16 or F16, contiguous in all dims but the last two; U8 [N, K / 2], the k-th number of a row in the low (k
// even) or high half of byte k / 2; scale and zero of each group, F32 [groups, N], where a group is K / groups numbers, a multiple of 8 or
// all. out = a times scale * number + zero, [.., N] of a's dtype, contiguous. Rows whose products with the numbers alone could overflow,
// and those with infinities and NaN, are multiplied in panels.
std::unique_ptr<const KernelPlan> plan_int4_panels(const KernelCall& call);  // as float32
std::unique_ptr<const KernelPlan> plan_int4_few_rows(
    const KernelCall& call);  // numbers with each row as they are read, scales with a group's sum
// For machines with AMX: tiles of the numbers, which bfloat16 holds, and of rows in three parts, scales with the sum of a group of whole
// tiles; or tiles of weights rounded to bfloat16, for rows of BF16.
std::unique_ptr<const KernelPlan> plan_int4_groups(const KernelCall& call);
std::unique_ptr<const KernelPlan> plan_int4_tiles(const KernelCall& call);

}  // namespace toroid
