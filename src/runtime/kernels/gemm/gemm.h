// Matrix products, on the runtime's own threads.
#pragma once

#include "runtime/kernels/gemm/gemm_small_m.h"
#include "runtime/kernels/gemm/macrokernel.h"

namespace toroid {

// out[m, n] = sum over k of a[m, k] * b[k, n]: b is packed as it is needed.
void gemm_f32(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const ProductOutput& out);
// The same in a form of the caller's choice, which takes the matrices.
void gemm_f32(GemmAlgorithm form, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
              const ProductOutput& out);

// The same in the form Packed, of elements that the macrokernel multiplies and converts (macrokernel.h).
template <class Element, class Stored>
void gemm_packed(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const MatrixOf<Stored>& a, const MatrixOf<Stored>& b,
                 const ProductOutputOf<Element>& out);

}  // namespace toroid
