// Products summed over labelled dims, in terms of one batched matrix product: what einsum, tensordot, inner and bilinear have in common.
//
// Two operands at a time. A label that both have and somebody still needs is a batch dim; one that both have and nobody
// needs is contracted; the rest are rows (left) or columns (right):
//
//   abk, bkc -> abc    batch b, contracted k, rows a, columns c:    [b, a, k] x [b, k, c]
//
// Without a contracted label there is nothing for a matrix product to do, and a broadcast multiplication fuses.
// Factors have one dtype, any real one, which the result has.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// x and y summed over x_dims[i] of the one and y_dims[i] of the other; the result has x's other dims, then y's. Of a size of 1 it
// broadcasts. Throws Error{InvalidModel} when the lists differ in length, or name a dim twice.
Tensor tensordot(Tensor x, Tensor y, const Dims& x_dims, const Dims& y_dims);

// Summed over the last dim of both; of a tensor of rank 0 the product.
Tensor inner(Tensor x, Tensor y);

// y[…, o] = sum over i, j of x1[…, i] weight[o, i, j] x2[…, j], plus bias[o], which may be undefined
Tensor bilinear(Tensor x1, Tensor x2, Tensor weight, Tensor bias);

// ---- labelled dims ----------------------------------------------------------------------------------------------------

using Labels = List<int>;
bool contains(const Labels& labels, int label);
size_t position(const Labels& labels, int label);  // labels.size() when it is not among them
Labels joined(Labels a, const Labels& b);

// A tensor with a label for each of its dims; labels within one tensor are distinct.
struct Labelled {
  Tensor x;
  Labels labels;
};

// x with its dims in the order of `labels`, which are all of its labels.
Labelled with_order(const Labelled& operand, const Labels& labels);

// Sums over the labels that are not in `keep`.
Labelled sum_to(const Labelled& operand, const Labels& keep);

// Multiplies the two and sums over every label that is not in `keep`. Labels that both have must have equal sizes. The
// result's labels are the shared kept ones, then those of `left` alone, then those of `right` alone.
Labelled contract(Labelled left, Labelled right, const Labels& keep);

}  // namespace toroid::formula
