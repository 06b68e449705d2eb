// Householder QR in LAPACK's compact form: below the diagonal of column j lies reflector v (its leading 1 left out),
// and H(j) = I - tau(j) v v^T; Q = H(0) H(1) …. Signs are ?larfg's: the diagonal of R opposes the sign of what it
// replaces.
#include <Eigen/Householder>
#include <Eigen/QR>

#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"

namespace toroid::linalg {
namespace {

using Factored = Eigen::HouseholderQR<Eigen::MatrixXd>;

// c becomes Q c, or Q^T c, for the reflectors below the diagonal of `a` and their factors.
void apply_q(const Eigen::MatrixXd& a, const Vector& tau, bool transpose, Eigen::MatrixXd& c) {
  const auto q = Eigen::householderSequence(a.leftCols(tau.size()), tau);
  if (transpose) {
    c.applyOnTheLeft(q.transpose());
  } else {
    c.applyOnTheLeft(q);
  }
}

Matrix columns_of_q(const Eigen::MatrixXd& a, const Vector& tau, int64_t columns) {
  Eigen::MatrixXd q = Eigen::MatrixXd::Identity(a.rows(), columns);
  apply_q(a, tau, false, q);
  return q;
}

}  // namespace

void qr(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool complete = call.attributes[0] == 1;
  const bool only_r = call.attributes[0] == 2;
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Factored factored(batch.matrix(0, i));
    const Eigen::MatrixXd& a = factored.matrixQR();
    const Vector tau = factored.hCoeffs();
    const int64_t width = complete ? a.rows() : tau.size();
    Matrix r = a.topRows(width);
    r.triangularView<Eigen::StrictlyLower>().setZero();
    batch.store(only_r ? 0 : 1, i, r);
    if (!only_r) batch.store(0, i, columns_of_q(a, tau, width));
  }
}

void geqrf(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Factored factored(batch.matrix(0, i));
    batch.store(0, i, Matrix(factored.matrixQR()));
    batch.store(1, i, Vector(factored.hCoeffs()));
  }
}

void householder_product(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    batch.store(0, i, columns_of_q(a, batch.vector(1, i), a.cols()));
  }
}

void ormqr(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool left = batch.flag(0);
  const bool transpose = batch.flag(1);
  for (int64_t i = 0; i < batch.size(); ++i) {
    Eigen::MatrixXd c = batch.matrix(2, i);
    // C op(Q) = (op(Q)^T C^T)^T
    if (!left) c = c.transpose().eval();
    apply_q(batch.matrix(0, i), batch.vector(1, i), left ? transpose : !transpose, c);
    if (!left) c = c.transpose().eval();
    batch.store(0, i, Matrix(c));
  }
}

}  // namespace toroid::linalg
