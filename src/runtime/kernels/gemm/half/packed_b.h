// Panels (gemm/packed_b.h) of matrices of bfloat16 or float16: widened to float32, or in pairs of rows for microkernel_bf16.h.
#pragma once

#include "runtime/kernels/gemm/packed_b.h"
#include "tensor/dtype.h"

namespace toroid {

// Strides in elements.
struct Matrix16 {
  const uint16_t* data;
  int64_t row, column;
  DType dtype;  // BF16 or F16
  const uint16_t* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
};

// Rows of pairs that hold so many rows.
inline int64_t pairs_of(int64_t rows) { return (rows + 1) / 2; }

// Both write some rows of one panel, of a matrix of k rows and n columns.
void pack_widened(const Matrix16& b, int64_t n, int64_t panel, Range rows, float* out);
// Floats here are pairs of bits: of each column the elements of two rows side by side, 0 beyond the last row.
void pack_pairs(const Matrix16& b, int64_t k, int64_t n, int64_t panel, Range pairs, float* out);

}  // namespace toroid
