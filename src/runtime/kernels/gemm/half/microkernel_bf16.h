// Strips of products of bfloat16 matrices, two elements of a row at a time, for machines with AVX512_BF16.
#pragma once

#include <cstdint>

#include "runtime/kernels/gemm/microkernel.h"

namespace toroid {

// c[i, j] = (add ? c[i, j] : 0) + sum over p < pairs of rows[i][2 p] * b[p][j][0] + rows[i][2 p + 1] * b[p][j][1], for all columns of a panel. Sums
// are float32; values that are not normal count as 0, as the instruction has it.
using MultiplyPairs = void (*)(int64_t pairs, const uint16_t* const* rows, const uint16_t* b, float* c, int64_t c_row, bool add);

// By rows - 1 and vectors - 1, as GemmMicrokernels::multiply; null where the machine has no such instruction.
using Bf16DotMicrokernels = MultiplyPairs[GemmMicrokernels::kMostRows][GemmMicrokernels::kMostVectors];
const Bf16DotMicrokernels* bf16_dot_microkernels();

}  // namespace toroid
