// The library of matrix products of a GPU's vendor, as a table: cuBLASLt, or hipBLASLt, whose functions are the same under other names,
// with other numbers for what they are told.
//
// cuBLASLt is libcublasLt.so.13 or .12, or what TOROID_CUBLASLT names; hipBLASLt is libhipblaslt.so.1 or .0, or what TOROID_HIPBLASLT
// names.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cuda/driver_api.h"

namespace toroid::cuda {

using BlasStatus = int;  // 0: success

// cublasLt.h's, whose layout is part of the library's interface. hipBLASLt's algorithm is its first 24 bytes.
struct BlasAlgorithm {
  uint64_t data[8];
};
struct BlasHeuristic {
  BlasAlgorithm algorithm;
  size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};

// clang-format off
#define TOROID_BLASLT_FUNCTIONS(F, PREFIX)                                                                  \
  F(create, PREFIX "Create", BlasStatus(void**))                                                            \
  F(destroy, PREFIX "Destroy", BlasStatus(void*))                                                           \
  F(matmul_create, PREFIX "MatmulDescCreate", BlasStatus(void**, int, int))                                 \
  F(matmul_destroy, PREFIX "MatmulDescDestroy", BlasStatus(void*))                                          \
  F(matmul_set, PREFIX "MatmulDescSetAttribute", BlasStatus(void*, int, const void*, size_t))               \
  F(layout_create, PREFIX "MatrixLayoutCreate", BlasStatus(void**, int, uint64_t, uint64_t, int64_t))       \
  F(layout_destroy, PREFIX "MatrixLayoutDestroy", BlasStatus(void*))                                        \
  F(layout_set, PREFIX "MatrixLayoutSetAttribute", BlasStatus(void*, int, const void*, size_t))             \
  F(preference_create, PREFIX "MatmulPreferenceCreate", BlasStatus(void**))                                 \
  F(preference_destroy, PREFIX "MatmulPreferenceDestroy", BlasStatus(void*))                                \
  F(preference_set, PREFIX "MatmulPreferenceSetAttribute", BlasStatus(void*, int, const void*, size_t))     \
  F(heuristic, PREFIX "MatmulAlgoGetHeuristic", BlasStatus(void*, void*, void*, void*, void*, void*, void*, int, BlasHeuristic*, int*)) \
  F(matmul, PREFIX "Matmul", BlasStatus(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*, const BlasAlgorithm*, void*, size_t, StreamHandle))
#define TOROID_CUBLASLT_FUNCTIONS(F) TOROID_BLASLT_FUNCTIONS(F, "cublasLt")
#define TOROID_HIPBLASLT_FUNCTIONS(F) TOROID_BLASLT_FUNCTIONS(F, "hipblasLt")
// clang-format on

struct BlasLt {
  TOROID_CUBLASLT_FUNCTIONS(TOROID_LIBRARY_MEMBER)
  std::string name;     // "cuBLASLt"
  std::string version;  // with the name, what numbers of algorithms are of
  // Attributes of a product, of a matrix and of a preference.
  int transpose_a, transpose_b, batch_count, batch_stride, workspace;
  int32_t as_it_is, transposed;  // values of the former
  int in_float, in_double, in_integers;
};

// That of the process's vendor. Throws Error{Environment} where it is absent: what to install.
const BlasLt& blas_lt();
bool has_blas_lt();

}  // namespace toroid::cuda
