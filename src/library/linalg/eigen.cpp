// Eigenvalues, by Eigen; the vectors of symmetric matrices are computed in the matrix's own dtype, so that their signs are PyTorch's
// (rotations.h).
#include <Eigen/Eigenvalues>

#include "base/error.h"
#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"
#include "library/linalg/symmetric_eigen.h"

namespace toroid::linalg {
namespace {

constexpr std::string_view kWhat = "the eigenvalue decomposition";

// Of a symmetric matrix the triangle that is read.
bool is_finite(const Matrix& a, bool upper) {
  for (int64_t i = 0; i < a.rows(); ++i) {
    const auto read = upper ? a.row(i).tail(a.cols() - i) : a.row(i).head(i + 1);
    if (!read.allFinite()) return false;
  }
  return true;
}

template <class T>
void eigh_as(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    if (a.size() == 0) continue;
    if (!is_finite(a, batch.flag(0))) {
      store_nan(batch, 0, i, a.rows(), 1);
      store_nan(batch, 1, i, a.rows(), a.rows());
      continue;
    }
    const SymmetricEigen<T> result = symmetric_eigen<T>(Dense<T>(a.cast<T>()), batch.flag(0));
    batch.store(0, i, Vector(result.values.template cast<double>()));
    batch.store(1, i, Matrix(result.vectors.template cast<double>()));
  }
}

}  // namespace

void eigh(const LibraryCall& call) { is_f32(call) ? eigh_as<float>(call) : eigh_as<double>(call); }

void eigvalsh(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    if (a.size() == 0) continue;
    if (!is_finite(a, batch.flag(0))) {
      store_nan(batch, 0, i, a.rows(), 1);
      continue;
    }
    Eigen::MatrixXd lower = a;
    if (batch.flag(0)) lower.transposeInPlace();
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(lower, Eigen::EigenvaluesOnly);  // reads the lower triangle
    batch.store(0, i, Vector(solver.eigenvalues()));
  }
}

// Of any real matrix. Columns have norm 1 and a real element of largest magnitude, as LAPACK's ?geev gives them.
void eig(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool vectors = call.outputs.size() > 1;
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    const int64_t n = a.rows();
    if (n == 0) continue;
    need_finite(a, kWhat);
    const Eigen::EigenSolver<Eigen::MatrixXd> solver(a, vectors);
    if (solver.info() != Eigen::Success) throw Error(ErrorKind::InvalidInput, "the eigenvalue decomposition did not converge");
    Matrix values(n, 2);
    for (int64_t k = 0; k < n; ++k) values.row(k) << solver.eigenvalues()[k].real(), solver.eigenvalues()[k].imag();
    batch.store(0, i, values);
    if (!vectors) continue;
    const Eigen::MatrixXcd columns = solver.eigenvectors();
    Vector pairs(n * n * 2);
    for (int64_t k = 0; k < n; ++k) {
      int64_t largest = 0;
      columns.col(k).cwiseAbs().maxCoeff(&largest);
      // Columns of real values are real; those of conjugate pairs are turned.
      const bool is_real = solver.eigenvalues()[k].imag() == 0;
      const std::complex<double> turn = is_real ? 1.0 : std::conj(columns(largest, k)) / std::abs(columns(largest, k));
      for (int64_t row = 0; row < n; ++row) {
        const std::complex<double> element = columns(row, k) * turn / columns.col(k).norm();
        pairs[(row * n + k) * 2] = element.real();
        pairs[(row * n + k) * 2 + 1] = element.imag();
      }
    }
    batch.store(1, i, pairs);
  }
}

}  // namespace toroid::linalg
