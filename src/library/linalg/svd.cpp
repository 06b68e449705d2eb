// Singular values, and least squares by them. Vectors are computed in the matrix's own dtype, so that their signs are PyTorch's
// (rotations.h), all else in double. Eigen's decomposition is not used: it takes g++ half a minute.
#include "base/error.h"
#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"
#include "library/linalg/singular_values.h"

namespace toroid::linalg {
namespace {

// As PyTorch says of NaN; infinite elements give NaN.
void need_no_nan(const Matrix& a) {
  if (a.hasNaN()) {
    throw Error(ErrorKind::InvalidInput, "the singular value decomposition of a matrix with NaN elements does not converge");
  }
}

template <class T>
void svd_as(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    need_no_nan(a);
    if (!a.allFinite()) {
      store_nan(batch, 0, i, batch.output_dim(0, 2), batch.output_dim(0, 1));
      store_nan(batch, 1, i, batch.output_dim(1, 1), 1);
      store_nan(batch, 2, i, batch.output_dim(2, 2), batch.output_dim(2, 1));
      continue;
    }
    const SingularValues<T> result = singular_values<T>(Dense<T>(a.cast<T>()), batch.flag(0));
    batch.store(0, i, Matrix(result.u.template cast<double>()));
    batch.store(1, i, Vector(result.values.template cast<double>()));
    batch.store(2, i, Matrix(result.vh.template cast<double>()));
  }
}

}  // namespace

void svd(const LibraryCall& call) { is_f32(call) ? svd_as<float>(call) : svd_as<double>(call); }

void svdvals(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Matrix a = batch.matrix(0, i);
    need_no_nan(a);
    if (!a.allFinite()) {
      store_nan(batch, 0, i, batch.output_dim(0, 1), 1);
      continue;
    }
    batch.store(0, i, Vector(singular_values_alone<double>(a)));
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
      const SingularValues<double> result = singular_values<double>(a, false);
      s = result.values;
      for (int64_t k = 0; k < least; ++k) {
        if (s[k] > rcond * s[0]) ++rank;
      }
      const auto u = result.u.leftCols(rank);
      x = result.vh.topRows(rank).transpose() * s.head(rank).cwiseInverse().asDiagonal() * (u.transpose() * b);
    }
    batch.store(0, i, x);
    const Matrix difference = a * x - b;
    if (batch.output_dim(1, 1) > 0) batch.store(1, i, Vector(difference.colwise().squaredNorm()));
    batch.store_integer(2, i, rank);
    batch.store(3, i, s);
  }
}

}  // namespace toroid::linalg
