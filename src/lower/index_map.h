// Views as index arithmetic: which element of its input each view operation reads.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace toroid {

// True for Expand, Permute, Reshape, Slice and Remap.
bool is_view(const Op& op);

// The index into a tensor of sizes `in` that a view of it with sizes `out` reads at `axes`. Needs is_view(op).
std::vector<sym::Expr> view_index(const Op& op, const std::vector<sym::Expr>& in, const std::vector<sym::Expr>& out,
                                  const std::vector<sym::Expr>& axes);

// The row-major position of `index` among `sizes`.
sym::Expr flatten_index(const std::vector<sym::Expr>& index, const std::vector<sym::Expr>& sizes);
// Its inverse. The last quotient needs no remainder since `position` is below the number of elements.
std::vector<sym::Expr> unflatten_index(sym::Expr position, const std::vector<sym::Expr>& sizes);

}  // namespace toroid
