// Matrix products of a few rows, which read the right-hand matrix once, where it lies: to pack it would cost more than it saves.
#pragma once

#include "runtime/kernels/gemm/packed_b.h"
#include "runtime/pool/pool.h"

namespace toroid {

// The ways to compute a product. Any is right wherever it takes the matrices; which is quickest is a matter of sizes.
enum class GemmAlgorithm {
  Packed,           // takes all; gemm.h
  Parts,            // takes all where there are tiles (has_amx_bf16x3); bf16x3/gemm.h
  SmallMByRows,     // b.column is 1
  SmallMByColumns,  // a.column and b.row are 1
};
struct GemmShape {
  int64_t m, n, k;
  bool has_packed_right;  // from earlier calls
};

// c[m, n] = sum over k of a[m, k] * b[k, n], in one of the forms FewRows…, which takes the matrices; c's rows are c_row elements apart.
void multiply_small_m(GemmAlgorithm form, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c,
                      int64_t c_row);

}  // namespace toroid
