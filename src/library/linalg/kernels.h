// The kernels of the linear-algebra rows of library_ops.h, one function a row.
#pragma once

#include "library/library_ops.h"

namespace toroid::linalg {

// cholesky.cpp
void cholesky(const LibraryCall& call);
void cholesky_solve(const LibraryCall& call);
void cholesky_inverse(const LibraryCall& call);
// qr.cpp
void qr(const LibraryCall& call);
void geqrf(const LibraryCall& call);
void householder_product(const LibraryCall& call);
void ormqr(const LibraryCall& call);
// lu.cpp
void lu_factor(const LibraryCall& call);
void lu_permutation(const LibraryCall& call);
void lu_solve(const LibraryCall& call);
void solve(const LibraryCall& call);
void inv(const LibraryCall& call);
void det(const LibraryCall& call);
void slogdet(const LibraryCall& call);
void solve_triangular(const LibraryCall& call);
// ldl.cpp
void ldl_factor(const LibraryCall& call);
void ldl_solve(const LibraryCall& call);
// svd.cpp, eigen.cpp
void svd(const LibraryCall& call);
void svdvals(const LibraryCall& call);
void eigh(const LibraryCall& call);
void eigvalsh(const LibraryCall& call);
void eig(const LibraryCall& call);
void lstsq(const LibraryCall& call);
// matrix_exp.cpp
void matrix_exp(const LibraryCall& call);

}  // namespace toroid::linalg
