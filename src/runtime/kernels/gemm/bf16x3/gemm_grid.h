// Products in parts on many threads: a grid of tasks over rows, columns and depth, whose rows all threads split before.
//
// Where each task splits the rows that it needs (gemm.h), tasks are cut by rows, so that few split the same ones, and each block of rows
// reads the weights anew. Of 128 rows on 16 threads that is four times all weights, from the cache that all share. Split once, rows are
// read by all tasks: those have few columns each, and where a product has too few columns for the threads, some of the depth.
#pragma once

#include "runtime/kernels/gemm/bf16x3/gemm.h"

namespace toroid {

// The grid of the least estimate, with `depths` of at least 1; or, where tasks that split their own rows are estimated to take less, the
// cut for these, with depths 0. `own`: that cut.
Cut better_of_grid_and(const Cut& own, int64_t threads, int64_t m, const PackedBf16x3& b);

// As multiply() of gemm.h, with such a grid. False: some row cannot be in parts, and nothing was written.
bool multiply_grid(RuntimePool& pool, const Cut& grid, int64_t m, const Matrix& a, const PackedBf16x3& b, Range panels,
                   const ProductOutput& out);

}  // namespace toroid
