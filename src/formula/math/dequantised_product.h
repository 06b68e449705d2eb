// Products whose factors are computed from int8 by a scale and a zero point, as products of the integers.
//
//   w = (q - zero) * scale          y = matmul(x, w)
//
// Where only the right factor is such, without a zero point and with a scale a column, the scale multiplies the result, and the factor
// stays int8 in memory. Where both are, the product is one of integers, exact, and zero points take part as sums of rows and columns:
//
//   y = (matmul(p, q) - zero_p * (sum_k(q) - K zero_q) - zero_q * sum_k(p)) * (scale_p * scale_q)
//
// A zero point beside floats stays in its factor: of an infinity the difference of the two products would be NaN. Zero points are exact
// whatever their size; a scale that is infinite meets sums instead of their terms.
#pragma once

#include "graph/builder.h"

namespace toroid {

// [M, K] x [K, N]; undefined where the factors are not such.
Tensor dequantised_product(Tensor x, Tensor y);

}  // namespace toroid
