// Householder reflections and plane rotations over float or double: what turns matrices into three or two diagonals, and those
// into one. Used by symmetric_eigen.cpp and singular_values.cpp.
//
// Eigenvectors and singular vectors have no sign of their own, but users compare them with PyTorch's, so both files choose like
// LAPACK as PyTorch's CPU build runs it: the same reflections, the same order of rotations, in the matrix's own precision.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <vector>

namespace toroid::linalg {

template <class T>
using Dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using Column = Eigen::Matrix<T, Eigen::Dynamic, 1>;

// I - factor * v v^T over the elements from `first` on; v[0] is 1.
template <class T>
struct Reflection {
  int64_t first = 0;
  T factor = 0;
  Column<T> v;
  T result = 0;  // what the vector that it was made for becomes: (result, 0, …, 0)

  // The reflection that clears x but for its first element; none (factor 0) where there is nothing to clear.
  static Reflection of(const Column<T>& x, int64_t first) {
    Reflection r{first, 0, x, x[0]};
    const T rest = x.size() > 1 ? x.tail(x.size() - 1).norm() : T(0);
    if (rest == 0) {
      r.v.setZero();
    } else {
      r.result = -std::copysign(std::hypot(x[0], rest), x[0]);
      r.factor = (r.result - x[0]) / r.result;
      r.v /= x[0] - r.result;
    }
    r.v[0] = 1;
    return r;
  }
  // To the rows (columns) of m from `first` on, in the columns (rows) from `begin` on.
  void apply_to_rows(Dense<T>& m, int64_t begin) const {
    if (factor == 0) return;
    auto block = m.block(first, begin, v.size(), m.cols() - begin);
    const Column<T> sums = block.transpose() * v;
    for (int64_t j = 0; j < block.cols(); ++j) block.col(j) -= factor * sums[j] * v;
  }
  void apply_to_columns(Dense<T>& m, int64_t begin) const {
    if (factor == 0) return;
    auto block = m.block(begin, first, m.rows() - begin, v.size());
    const Column<T> sums = block * v;
    for (int64_t j = 0; j < block.cols(); ++j) block.col(j) -= factor * v[j] * sums;
  }
};

// (c s; -s c) takes (f, g) to (r, 0).
template <class T>
struct Rotation {
  T c = 1, s = 0, r = 0;

  // r has the sign of f.
  static Rotation of(T f, T g) {
    if (g == 0) return {1, 0, f};
    if (f == 0) return {0, std::copysign(T(1), g), std::fabs(g)};
    const T length = std::sqrt(f * f + g * g);
    return {std::fabs(f) / length, g / std::copysign(length, f), std::copysign(length, f)};
  }
  // r is positive, unless f is negative and the larger one.
  static Rotation of_larger(T f, T g) {
    if (g == 0) return {1, 0, f};
    if (f == 0) return {0, 1, g};
    const T length = std::sqrt(f * f + g * g);
    const T sign = std::fabs(f) > std::fabs(g) && f < 0 ? T(-1) : T(1);
    return {sign * f / length, sign * g / length, sign * length};
  }
};

// Columns (rows) k and k + 1 become c*a + s*b and c*b - s*a.
template <class T>
void rotate_columns(Dense<T>& m, int64_t k, T c, T s) {
  const Column<T> a = m.col(k);
  m.col(k) = c * a + s * m.col(k + 1);
  m.col(k + 1) = c * m.col(k + 1) - s * a;
}
template <class T>
void rotate_rows(Dense<T>& m, int64_t k, T c, T s) {
  for (int64_t j = 0; j < m.cols(); ++j) {
    const T a = m(k, j), b = m(k + 1, j);
    m(k, j) = c * a + s * b;
    m(k + 1, j) = c * b - s * a;
  }
}

}  // namespace toroid::linalg
