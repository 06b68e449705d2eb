// Matrix products and what is made of them.
//
// A product keeps the whole Matmul operation; biases and scales stay outside as broadcast arithmetic, so that they fuse
// with whatever follows. Leading dims are folded into rows when the right side is a single matrix:
//
//   linear(x [B, T, K], w [N, K], bias [N])  =>  reshape(matmul(reshape(x, [B*T, K]), permute(w)), [B, T, N]) + bias
//
// Factors of one product have one dtype, any real one, which the result has. Throws Error{InvalidModel} where sizes do not fit.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// The sum of x[i] y[i], of rank 0, for vectors of one length.
Tensor dot(Tensor x, Tensor y);

// As Python's operator @: a vector on the left is a row, on the right a column, and its dim vanishes; batch dims broadcast. A right factor
// that is computed from int8 by a scale is multiplied as it is (formula/math/dequantised_product.h).
Tensor matmul(Tensor x, Tensor y);

// Products by groups, of one dtype: where a factor is a matrix, group g of its rows (x), columns (y) or of the elements that are summed
// over (both) ends before ends[g]; where it has rank 3, it holds a matrix a group. Of two matrices the result is [groups, M, N], else [M,
// N]. Factors that both have rank 3 are multiplied as they are, and `ends` may be undefined.
Tensor grouped_matmul(Tensor x, Tensor y, Tensor ends);

// x weight^T + bias for x [.., in], weight [out, in] or [in], bias [out] or undefined.
Tensor linear(Tensor x, Tensor weight, Tensor bias);

// beta*x + alpha*y, broadcast, as BLAS adds a product y to x: with beta 0 not even a NaN of x counts. Factors of integers are made integers
// first.
Tensor weighted_sum(Tensor x, Scalar beta, Tensor y, Scalar alpha);
// A number as it multiplies tensors of this dtype: an integer for integers.
Scalar factor_of(const Scalar& number, DType dtype);

// x[i] y[j] for vectors.
Tensor outer(Tensor x, Tensor y);

// The Kronecker product, out[i*p + k, j*q + l] = x[i, j] * y[k, l], for any rank.
Tensor kron(Tensor x, Tensor y);

// The sum of x y along `dim` of what they broadcast to.
Tensor vecdot(Tensor x, Tensor y, int64_t dim);

// The cross product of vectors along `dim`, of size 3, of what x and y broadcast to.
Tensor cross(Tensor x, Tensor y, int64_t dim);

// The product of all, in the order of least work; the first and the last may be vectors: a row and a column. Throws Error{InvalidModel} for
// none.
Tensor multi_dot(std::vector<Tensor> matrices);

// x^n for square matrices [.., M, M] and n >= 0.
Tensor matrix_power(Tensor x, int64_t n);

}  // namespace toroid::formula
