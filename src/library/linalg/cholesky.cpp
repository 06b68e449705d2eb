// Cholesky factors: A = L L^T, or U^T U when upper. Only that triangle of A is read.
#include <Eigen/Cholesky>

#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"

namespace toroid::linalg {
namespace {

using Cholesky = Eigen::LLT<Eigen::MatrixXd>;

// A leading minor that is not positive definite has a pivot that is not positive, or NaN.
bool is_definite(const Cholesky& cholesky) { return cholesky.info() == Eigen::Success && !cholesky.matrixLLT().diagonal().hasNaN(); }

// The order of the first leading minor of `a` that is not positive definite, by bisection: those after it are not either. 0 when there is
// none.
int64_t first_indefinite(const Eigen::MatrixXd& a) {
  int64_t least = 1, most = a.rows() + 1;
  while (least < most) {
    const int64_t middle = (least + most) / 2;
    const bool is_before = middle <= a.rows() && is_definite(Cholesky(a.topLeftCorner(middle, middle)));
    (is_before ? least : most) = is_before ? middle + 1 : middle;
  }
  return least > a.rows() ? 0 : least;
}

// L with zeros above its diagonal, from either triangle.
Eigen::MatrixXd lower_factor(const Matrix& factor, bool upper) {
  Eigen::MatrixXd l = factor;
  if (upper) l.transposeInPlace();
  l.triangularView<Eigen::StrictlyUpper>().setZero();
  return l;
}

Matrix solve_with(const Eigen::MatrixXd& l, Eigen::MatrixXd b) {
  l.triangularView<Eigen::Lower>().solveInPlace(b);
  l.transpose().triangularView<Eigen::Upper>().solveInPlace(b);
  return b;
}

}  // namespace

void cholesky(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool upper = batch.flag(0);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Eigen::MatrixXd a = lower_factor(batch.matrix(0, i), upper);
    const Cholesky cholesky(a);
    const int64_t info = a.rows() == 0 || is_definite(cholesky) ? 0 : first_indefinite(a);
    // Of a matrix that is not positive definite the factor is complete up to that minor.
    Eigen::MatrixXd l = a;
    if (const int64_t order = info == 0 ? a.rows() : info - 1; order > 0) {
      l.topLeftCorner(order, order) = Eigen::MatrixXd(Cholesky(a.topLeftCorner(order, order)).matrixL());
    }
    if (upper) l.transposeInPlace();
    batch.store(0, i, Matrix(l));
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
    const Eigen::MatrixXd l = lower_factor(batch.matrix(0, i), batch.flag(0));
    batch.store(0, i, solve_with(l, Eigen::MatrixXd::Identity(l.rows(), l.rows())));
  }
}

}  // namespace toroid::linalg
