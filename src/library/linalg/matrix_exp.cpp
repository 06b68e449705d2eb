// e^A by scaling and squaring: A / 2^s has norm at most 1/2, where 18 terms of the Taylor series reach double
// precision, and e^A is the 2^s-th power of the result.
#include <cmath>
#include <limits>

#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"

namespace toroid::linalg {
namespace {

Matrix exponential(Matrix a) {
  const int64_t n = a.rows();
  if (n == 0) return a;
  if (n == 1) return Matrix::Constant(1, 1, std::exp(a(0, 0)));  // infinities too, as PyTorch's
  const double norm = a.cwiseAbs().rowwise().sum().maxCoeff();
  if (!a.allFinite() || !std::isfinite(norm)) return Matrix::Constant(n, n, std::numeric_limits<double>::quiet_NaN());
  int squarings = 0;
  for (double scaled = norm; scaled > 0.5; scaled /= 2) ++squarings;
  a *= std::ldexp(1.0, -squarings);
  Matrix term = Matrix::Identity(n, n);
  Matrix sum = term;
  for (int k = 1; k <= 18; ++k) {
    term = (term * a / k).eval();
    sum += term;
  }
  for (int i = 0; i < squarings; ++i) sum = (sum * sum).eval();
  return sum;
}

}  // namespace

void matrix_exp(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) batch.store(0, i, exponential(batch.matrix(0, i)));
}

}  // namespace toroid::linalg
