// Strips of products of bfloat16 matrices, two elements of a row at a time, for machines with AVX512_BF16.
#pragma once

#include <cstdint>

#include "runtime/kernels/gemm/microkernel.h"

namespace toroid {

// c[i, j] = (add ? c[i, j] : 0) + sum over p < pairs of rows[i][2 p] * b[p][j][0] + rows[i][2 p + 1] * b[p][j][1], for all columns of a
// panel. Sums are float32; values that are not normal count as 0, as the instruction has it.
using MultiplyPairs = void (*)(int64_t pairs, const uint16_t* const* rows, const uint16_t* b, float* c, int64_t c_row, bool add);

// By rows - 1 and vectors - 1, as GemmMicrokernels::multiply; null where the machine has no such instruction.
using Bf16DotMicrokernels = MultiplyPairs[GemmMicrokernels::kMostRows][GemmMicrokernels::kMostVectors];
const Bf16DotMicrokernels* bf16_dot_microkernels();

// The same sums, without `add`, for 32 or 64 columns of a matrix that is not packed: its rows are contiguous and b_row elements apart.
using MultiplyPairsInRows = void (*)(int64_t pairs, const uint16_t* const* rows, const uint16_t* b, int64_t b_row, float* c, int64_t c_row);
constexpr int64_t kColumnsInRows = 32;
// By rows - 1 and columns / kColumnsInRows - 1; null where the machine has no such instruction.
using Bf16RowMicrokernels = MultiplyPairsInRows[GemmMicrokernels::kMostRows][GemmMicrokernels::kMostVectors / 2];
const Bf16RowMicrokernels* bf16_row_microkernels();

}  // namespace toroid
