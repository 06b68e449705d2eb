// Products of F32 in parts (split.h) of two matrices as they come: what gemm.h does where the right side was packed before.
//
// Each thread has rows and columns of its own and shares nothing. Some of its columns, to some of their depth, are packed into its
// second-level cache; then all its rows pass by, and while tiles of some are multiplied, vectors split the next ones. So the right side is
// packed once and read from near, and the left side is split anew for each block of columns, which costs little beside tiles.
#pragma once

#include <cstdint>

#include "runtime/kernels/gemm/macrokernel.h"

namespace toroid {

// out = a b, a of m rows and k columns, b of k rows and n columns; none of m, n and k is 0. Where has_amx_bf16x3().
void multiply_as_bf16x3(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const ProductOutput& out);

}  // namespace toroid
