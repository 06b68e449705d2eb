// Cholesky factors: A = L L^T, or U^T U when upper. Only that triangle of A is read.
#include <cmath>

#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"
#include "library/linalg/triangular.h"

namespace toroid::linalg {
namespace {

// Overwrites the lower triangle of `a` with L and clears the rest. Returns the order of the first leading minor that
// is not positive definite, or 0; the factor is then complete up to it.
int64_t factor_lower(Matrix& a) {
  const int64_t n = a.rows();
  for (int64_t j = 0; j < n; ++j) {
    double diagonal = a(j, j);
    for (int64_t k = 0; k < j; ++k) diagonal -= a(j, k) * a(j, k);
    if (!(diagonal > 0)) return j + 1;
    diagonal = std::sqrt(diagonal);
    a(j, j) = diagonal;
    for (int64_t i = j + 1; i < n; ++i) {
      double dot = a(i, j);
      for (int64_t k = 0; k < j; ++k) dot -= a(i, k) * a(j, k);
      a(i, j) = dot / diagonal;
    }
  }
  return 0;
}

// L with zeros above its diagonal, from either triangle.
Matrix lower_factor(const Matrix& factor, bool upper) {
  Matrix l = factor;
  if (upper) l.transposeInPlace();
  l.triangularView<Eigen::StrictlyUpper>().setZero();
  return l;
}

Matrix solve_with(const Matrix& l, Matrix b) {
  solve_lower(l, false, b);
  solve_upper(l.transpose(), false, b);
  return b;
}

}  // namespace

void cholesky(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool upper = batch.flag(0);
  for (int64_t i = 0; i < batch.size(); ++i) {
    Matrix a = lower_factor(batch.matrix(0, i), upper);
    const int64_t info = factor_lower(a);
    if (upper) a.transposeInPlace();
    batch.store(0, i, a);
    batch.finish(1, i, info, "the matrix is not positive definite");
  }
}

void cholesky_solve(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    batch.store(0, i, solve_with(lower_factor(batch.matrix(1, i), batch.flag(0)), batch.matrix(0, i)));
  }
}

void cholesky_inverse(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix l = lower_factor(batch.matrix(0, i), batch.flag(0));
    batch.store(0, i, solve_with(l, Matrix::Identity(l.rows(), l.rows())));
  }
}

}  // namespace toroid::linalg
