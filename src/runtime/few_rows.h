// Matrix products of a few rows, which read the right-hand matrix once, where it lies: to pack it would cost more than it saves.
#pragma once

#include "runtime/packed_matrix.h"
#include "runtime/pool.h"

namespace toroid {

// Is this a product of so few rows, of matrices that lie well for it?
bool has_few_rows(int64_t m, const Matrix& a, const Matrix& b);

// c[m, n] = sum over k of a[m, k] * b[k, n], where has_few_rows; c's rows are c_row elements apart.
void multiply_few_rows(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t c_row);

}  // namespace toroid
