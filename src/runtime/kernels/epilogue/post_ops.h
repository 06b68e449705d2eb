// What is done with a product's sums on their way to memory (ToroidEpilogue): post-operations, which the runtime does in registers where a
// microkernel has the sums there, else in blocks, or a function of the program over blocks. A product without an epilogue, whose sums are
// not what is stored, has post-operations too: none but the rounding of the result.
#pragma once

#include "runtime/kernels/gemm/partition.h"
#include "tensor/dtype.h"
#include "toroid/program_abi.h"

namespace toroid {

// Sums as they are go to `out`, whose rows are `row` elements apart, rounded to F32, BF16 or F16. I32: the sums are integers.
ToroidEpilogue store_as(DType dtype, void* out, int64_t row);

// May a microkernel that has the sums in registers do it there, and store the result? `epilogue` may be null.
bool is_for_registers(const ToroidEpilogue* epilogue);

// Post-operations for the part of the product that begins in this row and column.
ToroidEpilogue part_of(const ToroidEpilogue& post_ops, int64_t first_row, int64_t first_column);

// Does the epilogue for a block of the product; arguments as of ToroidEpilogue::run.
void run_epilogue(const ToroidEpilogue& epilogue, const float* block, int64_t block_row, Range rows, Range columns);

}  // namespace toroid
