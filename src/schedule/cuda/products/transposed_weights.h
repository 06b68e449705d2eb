// Constant right sides of products whose rows are contiguous, as a layer keeps them that multiplies by [inputs, outputs]: their columns
// become contiguous, once.
//
//   y = matmul() on x[8192, 768], w[768, 3072]    =>    once: wt[3072, 768] = w, transposed
//                                                       y = matmul() on x[8192, 768], wt[768, 3072] strides [1, 768]
//
// TMA permutes contiguous columns, so that sums go to an epilogue through registers (product_tiles.h, has_permuted_columns), and kernels of
// few rows have their ring and dual products for them. The constant stays where it was: the copies of a program are limited.
#pragma once

#include <cstdint>
#include <optional>

#include "loop/loop.h"

namespace toroid::schedule {

inline constexpr int64_t kMostTransposedBytes = int64_t{1} << 30;  // of a program's copies

// Before computations are grouped. `on_host`: of a program with some of its tensors on the host, those there, or all others.
void transpose_weights(loop::LoopProgram& program, std::optional<bool> on_host);

}  // namespace toroid::schedule
