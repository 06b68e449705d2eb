// Forward and back substitution. The other triangle of the matrix is not read; with `unit` neither is its diagonal.
#pragma once

#include "library/linalg/batch.h"

namespace toroid::linalg {

// b becomes L^-1 b.
inline void solve_lower(const Matrix& l, bool unit, Matrix& b) {
  for (int64_t i = 0; i < l.rows(); ++i) {
    for (int64_t k = 0; k < i; ++k) b.row(i) -= l(i, k) * b.row(k);
    if (!unit) b.row(i) /= l(i, i);
  }
}

// b becomes U^-1 b.
inline void solve_upper(const Matrix& u, bool unit, Matrix& b) {
  for (int64_t i = u.rows() - 1; i >= 0; --i) {
    for (int64_t k = i + 1; k < u.rows(); ++k) b.row(i) -= u(i, k) * b.row(k);
    if (!unit) b.row(i) /= u(i, i);
  }
}

}  // namespace toroid::linalg
