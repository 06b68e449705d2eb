// Sums of products over shared labels: what einsum, tensordot, inner and bilinear have in common.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid {

using Labels = List<int>;

// A tensor with a label for each of its dims; labels within one tensor are distinct.
struct Labelled {
  Tensor x;
  Labels labels;
};

// x with its dims in the order of `labels`, which are all of its labels.
Labelled with_order(const Labelled& operand, const Labels& labels);

// Multiplies the two and sums over every label that is not in `keep`. Labels that both have must have equal sizes. The
// result's labels are the shared kept ones, then those of `left` alone, then those of `right` alone.
Labelled contract(Labelled left, Labelled right, const Labels& keep);

}  // namespace toroid
