// Matrix products of a few rows, which read the right-hand matrix once, where it lies: to pack it would cost more than it saves.
#pragma once

#include "runtime/kernels/gemm/macrokernel.h"

namespace toroid {

// out[m, n] = sum over k of a[m, k] * b[k, n]; k is not 0. By rows: b.column is 1. By columns: a.column and b.row are 1.
void multiply_small_m_by_rows(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                              const ProductOutput& out);
void multiply_small_m_by_columns(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                                 const ProductOutput& out);

}  // namespace toroid
