// Epilogues that can be done with sums in registers (ToroidPostOps): what has the sums there stores the result, and no block of sums goes through
// memory to a function. The arithmetic is that of the program's function, to the bit.
#pragma once

#include "runtime/kernels/gemm/partition.h"
#include "toroid/program_abi.h"

namespace toroid {

// The epilogue as a clamped sum, if it is one that this machine's vectors compute as the program does; else null. `epilogue` may be null.
const ToroidPostOps* post_ops(const ToroidEpilogue* epilogue);

// Of the part that begins in this row and column of the product.
ToroidPostOps part_of(const ToroidPostOps& whole, int64_t first_row, int64_t first_column);

// The epilogue for a block of a product, as ToroidEpilogue::run has it.
void run_epilogue(const ToroidEpilogue& epilogue, const float* block, int64_t block_row, Range rows, Range columns);

}  // namespace toroid
