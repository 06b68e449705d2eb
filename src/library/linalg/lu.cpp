// LU factors with partial pivoting, P A = L U, and what follows from them: solving, inverting, determinants.
#include <Eigen/LU>
#include <algorithm>
#include <cmath>

#include "library/linalg/batch.h"
#include "library/linalg/kernels.h"

namespace toroid::linalg {
namespace {

constexpr std::string_view kSingular = "the matrix is singular";

struct Lu {
  Matrix factors;    // L below the diagonal (its ones left out), U on and above
  Integers pivots;   // 1-based: row i was swapped with row pivots[i] - 1
  int64_t info = 0;  // 1-based place of the first zero on U's diagonal
};

Lu lu_factor(Matrix a, bool pivot) {
  const int64_t count = std::min(a.rows(), a.cols());
  Lu lu{std::move(a), Integers(count)};
  Matrix& f = lu.factors;
  if (pivot) {
    // What Eigen::PartialPivLU, which takes square matrices alone, is made of. It factors as many columns as there are rows at most.
    Matrix factored = f.leftCols(count);
    Eigen::Transpositions<Eigen::Dynamic> swaps(count);
    int count_of_swaps = 0;
    Eigen::internal::partial_lu_inplace(factored, swaps, count_of_swaps);
    Matrix beside = f.rightCols(f.cols() - count);
    if (beside.size() > 0) {
      beside = (swaps * beside).eval();
      factored.triangularView<Eigen::UnitLower>().solveInPlace(beside);
    }
    f.leftCols(count) = factored;
    f.rightCols(beside.cols()) = beside;
    lu.pivots = swaps.indices().array() + 1;
  } else {
    for (int64_t j = 0; j < count; ++j) {
      lu.pivots[j] = static_cast<int32_t>(j + 1);
      const int64_t below = f.rows() - j - 1, beside = f.cols() - j - 1;
      if (f(j, j) == 0) continue;
      f.col(j).tail(below) /= f(j, j);
      f.bottomRightCorner(below, beside).noalias() -= f.col(j).tail(below) * f.row(j).tail(beside);
    }
  }
  for (int64_t j = count; j-- > 0;) {
    if (f(j, j) == 0) lu.info = j + 1;
  }
  return lu;
}

void swap_rows(const Integers& pivots, bool backward, Matrix& b) {
  for (int64_t step = 0; step < pivots.size(); ++step) {
    const int64_t i = backward ? pivots.size() - 1 - step : step;
    if (const int64_t other = std::abs(pivots[i]) - 1; other != i) b.row(i).swap(b.row(other));
  }
}

// b becomes A^-1 b, or A^-T b.
void solve_by_lu(const Matrix& factors, const Integers& pivots, bool transpose, Matrix& b) {
  if (!transpose) {
    swap_rows(pivots, false, b);
    factors.triangularView<Eigen::UnitLower>().solveInPlace(b);
    factors.triangularView<Eigen::Upper>().solveInPlace(b);
  } else {
    factors.transpose().triangularView<Eigen::Lower>().solveInPlace(b);
    factors.transpose().triangularView<Eigen::UnitUpper>().solveInPlace(b);
    swap_rows(pivots, true, b);
  }
}

struct Determinant {
  double sign = 1;
  double log_magnitude = 0;
  double value = 1;
};
Determinant determinant(const Matrix& a) {
  const Lu lu = lu_factor(a, true);
  Determinant result;
  for (int64_t i = 0; i < lu.pivots.size(); ++i) {
    const double d = lu.factors(i, i) * (lu.pivots[i] - 1 == i ? 1.0 : -1.0);
    result.sign *= d > 0 ? 1.0 : d < 0 ? -1.0 : d;  // 0 and NaN stay
    result.log_magnitude += std::log(std::fabs(d));
    result.value *= d;
  }
  return result;
}

// b becomes A^-1 b, of one triangle of a; with `unit` its diagonal is not read.
void solve_triangle(const Matrix& a, bool upper, bool unit, Matrix& b) {
  if (upper) {
    unit ? a.triangularView<Eigen::UnitUpper>().solveInPlace(b) : a.triangularView<Eigen::Upper>().solveInPlace(b);
  } else {
    unit ? a.triangularView<Eigen::UnitLower>().solveInPlace(b) : a.triangularView<Eigen::Lower>().solveInPlace(b);
  }
}

}  // namespace

void lu_factor(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Lu lu = lu_factor(batch.matrix(0, i), batch.flag(0));
    batch.store(0, i, lu.factors);
    batch.store_integers(1, i, lu.pivots);
    if (call.outputs.size() > 2) batch.store_integer(2, i, lu.info);
  }
}

void lu_permutation(const LibraryCall& call) {
  const Batch batch(call, 1);
  const int64_t rows = batch.output_dim(0, 1);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Integers pivots = batch.pivots(0, i, rows);
    std::vector<int64_t> order(static_cast<size_t>(rows));
    for (size_t r = 0; r < order.size(); ++r) order[r] = static_cast<int64_t>(r);
    for (int64_t p = 0; p < pivots.size(); ++p) {
      std::swap(order[static_cast<size_t>(p)], order[static_cast<size_t>(std::abs(pivots[p]) - 1)]);
    }
    for (int64_t r = 0; r < rows; ++r) batch.store_integer(0, i * rows + r, order[static_cast<size_t>(r)]);
  }
}

void lu_solve(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool left = batch.flag(0);
  const bool adjoint = batch.flag(1);
  for (int64_t i = 0; i < batch.size(); ++i) {
    Matrix b = batch.matrix(2, i);
    // X A = B is A^T X^T = B^T
    if (!left) b = b.transpose().eval();
    solve_by_lu(batch.matrix(0, i), batch.pivots(1, i, b.rows()), left ? adjoint : !adjoint, b);
    if (!left) b = b.transpose().eval();
    batch.store(0, i, b);
  }
}

void solve(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool left = batch.flag(0);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Lu lu = lu_factor(batch.matrix(0, i), true);
    Matrix b = batch.matrix(1, i);
    if (!left) b = b.transpose().eval();
    solve_by_lu(lu.factors, lu.pivots, !left, b);
    if (!left) b = b.transpose().eval();
    batch.store(0, i, b);
    batch.finish(1, i, lu.info, kSingular);
  }
}

void inv(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Lu lu = lu_factor(batch.matrix(0, i), true);
    Matrix x = Matrix::Identity(lu.factors.rows(), lu.factors.rows());
    solve_by_lu(lu.factors, lu.pivots, false, x);
    batch.store(0, i, x);
    batch.finish(1, i, lu.info, kSingular);
  }
}

void det(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) batch.store(0, i, determinant(batch.matrix(0, i)).value);
}

void slogdet(const LibraryCall& call) {
  const Batch batch(call, 2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const Determinant d = determinant(batch.matrix(0, i));
    batch.store(0, i, d.sign);
    batch.store(1, i, d.log_magnitude);
  }
}

void solve_triangular(const LibraryCall& call) {
  const Batch batch(call, 2);
  const bool upper = batch.flag(0);
  const bool left = batch.flag(1);
  const bool unit = batch.flag(2);
  for (int64_t i = 0; i < batch.size(); ++i) {
    Matrix a = batch.matrix(0, i);
    Matrix b = batch.matrix(1, i);
    if (!left) {
      a.transposeInPlace();
      b = b.transpose().eval();
    }
    solve_triangle(a, upper == left, unit, b);
    if (!left) b = b.transpose().eval();
    batch.store(0, i, b);
  }
}

}  // namespace toroid::linalg
