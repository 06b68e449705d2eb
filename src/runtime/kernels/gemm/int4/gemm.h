// Products of floats with a matrix of int4, as models with weight-only quantisation have them: its bytes, two numbers each, are all that is read from
// memory, an eighth of float32's.
#pragma once

#include "runtime/kernels/registry/library.h"

namespace toroid {

enum class Int4Algorithm {
  FewRows,  // numbers are multiplied with each row as they are read, scales with the sum of a group
  Tiles,    // of weights rounded to bfloat16, for rows of BF16 and machines with AMX
  Groups,   // tiles of the numbers, which bfloat16 holds, and of rows in three parts, scales with the sum of a group of whole tiles
  Panels,   // as float32
};
struct Int4Sizes {
  int64_t m, n, k, groups;
  DType rows;
};
bool can_multiply_int4(Int4Algorithm form, const Int4Sizes& sizes);  // on this machine

// inputs: a [.., K] of F32, BF16 or F16, contiguous in all dims but the last two; U8 [N, K / 2], the k-th number of a row in the low (k even) or high
// half of byte k / 2; scale and zero of each group, F32 [groups, N], where a group is K / groups numbers, a multiple of 8 or all.
// out = a times scale * number + zero, [.., N] of a's dtype, contiguous. Rows whose products with the numbers alone could overflow, and those with
// infinities and NaN, are multiplied in panels.
void run_matmul_int4(const KernelCall& call, Int4Algorithm form);

}  // namespace toroid
