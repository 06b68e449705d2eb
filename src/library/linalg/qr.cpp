// Householder QR in LAPACK's compact form: below the diagonal of column j lies reflector v (its leading 1 left out),
// and H(j) = I - tau(j) v v^T; Q = H(0) H(1) …. Signs are ?larfg's: the diagonal of R opposes the sign of what it
// replaces.
#include <algorithm>
#include <cmath>

#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"

namespace toroid::linalg {
namespace {

// The j-th reflector as a full vector.
Vector reflector(const Matrix& a, int64_t j) {
  Vector v = Vector::Zero(a.rows());
  v[j] = 1;
  for (int64_t i = j + 1; i < a.rows(); ++i) v[i] = a(i, j);
  return v;
}

// c becomes H c.
void reflect(const Vector& v, double tau, Matrix& c) { c -= tau * v * (v.transpose() * c); }

Vector factor(Matrix& a) {
  const int64_t count = std::min(a.rows(), a.cols());
  Vector tau = Vector::Zero(count);
  for (int64_t j = 0; j < count; ++j) {
    const int64_t below = a.rows() - j - 1;
    const double tail = below > 0 ? a.col(j).tail(below).norm() : 0.0;
    if (tail == 0) continue;  // H(j) = I
    const double alpha = a(j, j);
    const double beta = -std::copysign(std::hypot(alpha, tail), alpha);
    tau[j] = (beta - alpha) / beta;
    a.col(j).tail(below) /= alpha - beta;
    a(j, j) = beta;
    const Vector v = reflector(a, j);
    Matrix rest = a.rightCols(a.cols() - j - 1);
    reflect(v, tau[j], rest);
    a.rightCols(a.cols() - j - 1) = rest;
  }
  return tau;
}

// c becomes Q c, or Q^T c.
void apply_q(const Matrix& a, const Vector& tau, bool transpose, Matrix& c) {
  const int64_t count = tau.size();
  for (int64_t step = 0; step < count; ++step) {
    const int64_t j = transpose ? step : count - 1 - step;
    reflect(reflector(a, j), tau[j], c);
  }
}

Matrix columns_of_q(const Matrix& a, const Vector& tau, int64_t columns) {
  Matrix q = Matrix::Identity(a.rows(), columns);
  apply_q(a, tau, false, q);
  return q;
}

}  // namespace

void qr(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool complete = call.attributes[0] == 1;
  const bool only_r = call.attributes[0] == 2;
  for (int64_t i = 0; i < batch.size(); ++i) {
    Matrix a = batch.matrix(0, i);
    const Vector tau = factor(a);
    const int64_t width = complete ? a.rows() : tau.size();
    Matrix r = a.topRows(width);
    for (int64_t row = 0; row < r.rows(); ++row) {
      for (int64_t column = 0; column < std::min(row, r.cols()); ++column) r(row, column) = 0;
    }
    batch.store(only_r ? 0 : 1, i, r);
    if (!only_r) batch.store(0, i, columns_of_q(a, tau, width));
  }
}

void geqrf(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    Matrix a = batch.matrix(0, i);
    const Vector tau = factor(a);
    batch.store(0, i, a);
    batch.store(1, i, tau);
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
    Matrix c = batch.matrix(2, i);
    // C op(Q) = (op(Q)^T C^T)^T
    if (!left) c = c.transpose().eval();
    apply_q(batch.matrix(0, i), batch.vector(1, i), left ? transpose : !transpose, c);
    if (!left) c = c.transpose().eval();
    batch.store(0, i, c);
  }
}

}  // namespace toroid::linalg
