// Singular value decomposition: reflections to two diagonals, then implicit QR steps with or without a shift (Demmel and Kahan,
// Accurate singular values of bidiagonal matrices). Signs of vectors are PyTorch's: see rotations.h.
#pragma once

#include "library/linalg/rotations.h"

namespace toroid::linalg {

template <class T>
struct SingularValues {
  Dense<T> u;        // [m, m or min]
  Column<T> values;  // [min], descending
  Dense<T> vh;       // [n or min, n]
};

// Of a [m, n], which must be finite; all of u and vh when `full`. Throws Error{InvalidInput} when the steps do not converge.
// Defined for float and double.
template <class T>
SingularValues<T> singular_values(Dense<T> a, bool full);
// The values without vectors, descending. Defined for double.
template <class T>
Column<T> singular_values_alone(Dense<T> a);

}  // namespace toroid::linalg
