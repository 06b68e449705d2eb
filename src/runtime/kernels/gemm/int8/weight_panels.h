// Panels of int8 and the inner loops that read them: widened for many rows, multiplied as they are read for few.
#pragma once

#include <cstdint>

#include "runtime/kernels/gemm/microkernel.h"

namespace toroid {

// out[i * out_row + j] = (add ? out[i * out_row + j] : 0) + sum over p < depth of rows[i][p] * b[p * width + j], for all columns of a panel
// that is `width` wide. Sums are float32. Unless `wide` is null, wide[p * width + j] = b[p * width + j] for the strips that follow.
using MultiplyBytes = void (*)(int64_t depth, const float* const* rows, const int8_t* b, float* out, int64_t out_row, bool add,
                               float* wide);

// The loops for one instruction set, by rows - 1 and vectors - 1; null beyond a panel's vectors.
using NarrowKernels = MultiplyBytes[GemmMicrokernels::kMostRows][GemmMicrokernels::kMostVectors];
const NarrowKernels& narrow_kernels();

// To float32, as many as whole vectors.
using WidenBytes = void (*)(const int8_t* from, int64_t count, float* to);
WidenBytes widen_to_float32();

// The same of rows of bfloat16 and pairs of rows of b, [pair][vector][first, second][16 columns]; `wide` becomes a panel of
// microkernel_bf16.h.
using MultiplyBytePairs = void (*)(int64_t pairs, const uint16_t* const* rows, const int8_t* b, float* out, int64_t out_row, bool add,
                                   uint16_t* wide);
using NarrowPairKernels = MultiplyBytePairs[GemmMicrokernels::kMostRows][GemmMicrokernels::kMostVectors];
// Null where bf16_dot_microkernels() is.
const NarrowPairKernels* narrow_pair_kernels();

// To bfloat16, exactly; `count`: a multiple of 32.
void widen_to_bfloat16(const int8_t* from, int64_t count, uint16_t* to);

}  // namespace toroid
