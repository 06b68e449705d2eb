// For tests of products: algorithms as functions of matrices.
#pragma once

#include "runtime/kernels/gemm/gemm_f32.h"

namespace toroid {

using MultiplyMatrices = void (*)(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                                  const ProductOutput& out);

inline void multiply_packed(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                            const ProductOutput& out) {
  PackedGemm<float>(pool.threads(), m, n, k)(pool, a, b, out);
}
inline void multiply_cheapest(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                              const ProductOutput& out) {
  plan_gemm_f32({.m = m, .n = n, .k = k, .a_column = a.column, .b_row = b.row, .b_column = b.column}, pool.threads())(pool, a, b, out);
}

// The product with all panels of `b`, PackedB or PackedBf16x3.
template <class Packed>
void multiply_all(RuntimePool& pool, int64_t m, const Matrix& a, const Packed& b, const ProductOutput& out) {
  multiply(pool, partition_of(pool.threads(), m, b), m, a, b, {0, b.panels()}, out);
}

}  // namespace toroid
