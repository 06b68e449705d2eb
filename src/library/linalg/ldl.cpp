// Symmetric indefinite factors, A = P L D L^T P^T with blocks of 1 and 2 on D: Bunch and Kaufman's pivoting as in
// LAPACK's ?sytf2 with UPLO='L' (Anderson et al., LAPACK Users' Guide; Golub and Van Loan, Matrix Computations, 4.4).
// For real matrices the hermitian flag changes nothing. Only the lower triangle is read.
//
// pivots[k] = p > 0: a 1x1 block, rows k and p-1 were swapped. pivots[k] = pivots[k+1] = -p: a 2x2 block, rows k+1
// and p-1 were swapped.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"

namespace toroid::linalg {
namespace {

// An element of the symmetric matrix whose lower triangle is stored.
double symmetric(const Matrix& a, int64_t i, int64_t j) { return i >= j ? a(i, j) : a(j, i); }

struct Pivot {
  int64_t row;
  int64_t block;  // 1 or 2
};

Pivot choose_pivot(const Matrix& a, int64_t k) {
  const double alpha = (1 + std::sqrt(17.0)) / 8;
  const int64_t n = a.rows();
  const double diagonal = std::fabs(a(k, k));
  int64_t largest = k;
  double column_max = 0;
  for (int64_t i = k + 1; i < n; ++i) {
    if (std::fabs(a(i, k)) > column_max) {
      column_max = std::fabs(a(i, k));
      largest = i;
    }
  }
  if (diagonal >= alpha * column_max) return {k, 1};
  double row_max = 0;
  for (int64_t j = k; j < n; ++j) {
    if (j != largest) row_max = std::max(row_max, std::fabs(symmetric(a, largest, j)));
  }
  if (diagonal >= alpha * column_max * (column_max / row_max)) return {k, 1};
  if (std::fabs(a(largest, largest)) >= alpha * row_max) return {largest, 1};
  return {largest, 2};
}

// Swaps rows and columns p < q of the symmetric matrix, from column `first` on.
void swap_symmetric(Matrix& a, int64_t p, int64_t q, int64_t first) {
  for (int64_t i = q + 1; i < a.rows(); ++i) std::swap(a(i, p), a(i, q));
  for (int64_t i = p + 1; i < q; ++i) std::swap(a(i, p), a(q, i));
  std::swap(a(p, p), a(q, q));
  for (int64_t j = first; j < p; ++j) std::swap(a(p, j), a(q, j));
}

int64_t ldl_factor(Matrix& a, Integers& pivots) {
  const int64_t n = a.rows();
  int64_t info = 0;
  for (int64_t k = 0; k < n;) {
    const Pivot pivot = choose_pivot(a, k);
    const int64_t moved = k + pivot.block - 1;
    if (pivot.row != moved) swap_symmetric(a, moved, pivot.row, k);
    if (pivot.block == 1) {
      pivots[k] = static_cast<int32_t>(pivot.row + 1);
      if (a(k, k) == 0) {
        if (info == 0) info = k + 1;
      } else {
        for (int64_t j = k + 1; j < n; ++j) {
          const double factor = a(j, k) / a(k, k);
          for (int64_t i = j; i < n; ++i) a(i, j) -= a(i, k) * factor;
        }
        for (int64_t i = k + 1; i < n; ++i) a(i, k) /= a(k, k);
      }
    } else {
      pivots[k] = pivots[k + 1] = static_cast<int32_t>(-(pivot.row + 1));
      const double d00 = a(k, k);
      const double d10 = a(k + 1, k);
      const double d11 = a(k + 1, k + 1);
      const double determinant = d00 * d11 - d10 * d10;
      for (int64_t j = k + 2; j < n; ++j) {
        const double l0 = (d11 * a(j, k) - d10 * a(j, k + 1)) / determinant;
        const double l1 = (d00 * a(j, k + 1) - d10 * a(j, k)) / determinant;
        for (int64_t i = j; i < n; ++i) a(i, j) -= a(i, k) * l0 + a(i, k + 1) * l1;
        a(j, k) = l0;  // row j of these columns is not read again: later updates start below it
        a(j, k + 1) = l1;
      }
    }
    k += pivot.block;
  }
  return info;
}

void solve_by_ldl(const Matrix& a, const Integers& pivots, Matrix& b) {
  const int64_t n = a.rows();
  for (int64_t k = 0; k < n;) {
    if (pivots[k] > 0) {
      b.row(k).swap(b.row(pivots[k] - 1));
      for (int64_t i = k + 1; i < n; ++i) b.row(i) -= a(i, k) * b.row(k);
      b.row(k) /= a(k, k);
      k += 1;
    } else {
      b.row(k + 1).swap(b.row(-pivots[k] - 1));
      for (int64_t i = k + 2; i < n; ++i) b.row(i) -= a(i, k) * b.row(k) + a(i, k + 1) * b.row(k + 1);
      const double determinant = a(k, k) * a(k + 1, k + 1) - a(k + 1, k) * a(k + 1, k);
      const Matrix upper = b.row(k);
      const Matrix lower = b.row(k + 1);
      b.row(k) = (a(k + 1, k + 1) * upper - a(k + 1, k) * lower) / determinant;
      b.row(k + 1) = (a(k, k) * lower - a(k + 1, k) * upper) / determinant;
      k += 2;
    }
  }
  for (int64_t k = n - 1; k >= 0;) {
    const int64_t block = pivots[k] > 0 ? 1 : 2;
    for (int64_t column = k; column > k - block; --column) {
      for (int64_t i = k + 1; i < n; ++i) b.row(column) -= a(i, column) * b.row(i);
    }
    b.row(k).swap(b.row(std::abs(pivots[k]) - 1));
    k -= block;
  }
}

// Negative pivots are those of 2x2 blocks.
void require_pairs(const Integers& pivots) {
  for (int64_t k = 0; k<pivots.size(); k += pivots[k]> 0 ? 1 : 2) {
    if (pivots[k] > 0 || (k + 1 < pivots.size() && pivots[k + 1] < 0)) continue;
    throw Error(ErrorKind::InvalidInput, formatted("pivot {} is negative, but the next one does not belong to it", k));
  }
}

}  // namespace

void ldl_factor(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    Matrix a = batch.matrix(0, i);
    Integers pivots(a.rows());
    const int64_t info = ldl_factor(a, pivots);
    a.triangularView<Eigen::StrictlyUpper>().setZero();
    batch.store(0, i, a);
    batch.store_integers(1, i, pivots);
    if (call.outputs.size() > 2) batch.store_integer(2, i, info);
  }
}

void ldl_solve(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    Matrix b = batch.matrix(2, i);
    const Integers pivots = batch.pivots(1, i, b.rows());
    require_pairs(pivots);
    solve_by_ldl(batch.matrix(0, i), pivots, b);
    batch.store(0, i, b);
  }
}

}  // namespace toroid::linalg
