// Eigenvalues and eigenvectors of symmetric matrices: reflections to three diagonals, then implicit QL or QR steps (Golub and
// Van Loan, 8.3). Signs of vectors are PyTorch's: see rotations.h.
#pragma once

#include "library/linalg/rotations.h"

namespace toroid::linalg {

template <class T>
struct SymmetricEigen {
  Column<T> values;  // ascending
  Dense<T> vectors;  // a column each, of norm 1
};

// Reads the lower triangle of `a`, the upper one when `upper`; `a` must be finite. Throws Error{InvalidInput} when the steps do
// not converge. Defined for float and double.
template <class T>
SymmetricEigen<T> symmetric_eigen(Dense<T> a, bool upper);

}  // namespace toroid::linalg
