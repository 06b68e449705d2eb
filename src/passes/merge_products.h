// Products of one left side by several constant right sides become one product.
//
//   q = matmul(x, wq)                 w = weights.join(wq, wk, wv)      once, before the first call
//   k = matmul(x, wk)        =>       p = matmul(x, w)
//   v = matmul(x, wv)                 q, k, v = slices of p's columns
//
// So one call makes queries, keys and values of attention. It starts once, reads x once and has more columns to share among threads. The
// slices are windows of the product: attention, products and kernels read them where they are. A bias that each of them has is joined too.
//
// It is done where it pays by the runtime's estimate (passes/costs.h): where one call takes at least a twentieth less than several. The
// price is memory, since the joined weights are kept beside those of the model.
//
// A product keeps its own call where merging would cost another pass over its result, which is more than a call:
//   element-wise work alone reads it, and is now done on each block as it is made (gate and up projections, activations);
//   it is an output, or a call reads it that takes contiguous operands, so that its slice would be copied.
#pragma once

#include "graph/graph.h"
#include "passes/costs.h"

namespace toroid {

// Needs core level; works on the main graph. Keeps outputs and names. True if products were merged.
bool merge_products(Program& program, const PassCosts& costs);

}  // namespace toroid
