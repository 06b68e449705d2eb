// Singular values and eigenvalues. Values alone are Eigen's; vectors of symmetric eigenvalues and singular values are computed in
// the matrix's own dtype, so that their signs are PyTorch's (rotations.h).
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <limits>

#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"
#include "library/linalg/singular_values.h"
#include "library/linalg/symmetric_eigen.h"
#include "support/error.h"

namespace toroid::linalg {
namespace {

using Svd = Eigen::JacobiSVD<Eigen::MatrixXd, Eigen::FullPivHouseholderQRPreconditioner>;
constexpr unsigned kVectors = Eigen::ComputeFullU | Eigen::ComputeFullV;

void need_finite(const Matrix& a, std::string_view what) {
  if (!a.allFinite()) {
    throw Error(ErrorKind::InvalidInput, fmt::format("{} of a matrix with infinite or NaN elements does not converge", what));
  }
}

template <class T>
void svd_as(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    need_finite(a, "the singular value decomposition");
    const SingularValues<T> result = singular_values<T>(Dense<T>(a.cast<T>()), batch.flag(0));
    batch.store(0, i, Matrix(result.u.template cast<double>()));
    batch.store(1, i, Vector(result.values.template cast<double>()));
    batch.store(2, i, Matrix(result.vh.template cast<double>()));
  }
}

template <class T>
void eigh_as(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    if (a.size() == 0) continue;
    need_finite(a, "the eigenvalue decomposition");
    const SymmetricEigen<T> result = symmetric_eigen<T>(Dense<T>(a.cast<T>()), batch.flag(0));
    batch.store(0, i, Vector(result.values.template cast<double>()));
    batch.store(1, i, Matrix(result.vectors.template cast<double>()));
  }
}

bool is_f32(const LibraryCall& call) { return call.inputs[0].dtype == DType::F32; }

}  // namespace

void svd(const LibraryCall& call) { is_f32(call) ? svd_as<float>(call) : svd_as<double>(call); }
void eigh(const LibraryCall& call) { is_f32(call) ? eigh_as<float>(call) : eigh_as<double>(call); }

void svdvals(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    need_finite(a, "the singular value decomposition");
    Vector s(std::min(a.rows(), a.cols()));
    if (s.size() > 0) s = Svd(a).singularValues();
    batch.store(0, i, s);
  }
}

void eigvalsh(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    if (a.size() == 0) continue;
    need_finite(a, "the eigenvalue decomposition");
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
    need_finite(a, "the eigenvalue decomposition");
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

// The solution of least norm; singular values up to rcond times the largest count as 0.
void lstsq(const LibraryCall& call) {
  const Batch batch(call, 2);
  const int64_t rows = batch.input_dim(0, 2);
  const int64_t columns = batch.input_dim(0, 1);
  const int64_t least = std::min(rows, columns);
  const double rcond = call.attributes[0];
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    const Matrix b = batch.matrix(1, i);
    need_finite(a, "least squares");
    Matrix x = Matrix::Zero(columns, b.cols());
    Vector s(least);
    int64_t rank = 0;
    if (least > 0) {
      const Svd result(a, kVectors);
      s = result.singularValues();
      for (int64_t k = 0; k < least; ++k) {
        if (!(s[k] > rcond * s[0])) continue;
        ++rank;
        x += result.matrixV().col(k) * (result.matrixU().col(k).transpose() * b) / s[k];
      }
    }
    batch.store(0, i, x);
    const Matrix difference = a * x - b;
    if (batch.output_dim(1, 1) > 0) batch.store(1, i, Vector(difference.colwise().squaredNorm()));
    batch.store_integer(2, i, rank);
    batch.store(3, i, s);
  }
}

}  // namespace toroid::linalg
