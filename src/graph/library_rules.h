// What the matrices of a linear-algebra kernel must be (internal to graph/).
#pragma once

#include <span>

#include "graph/graph.h"

namespace toroid {

// Throws Error{InvalidModel} that names the kernel when the operands of a linalg.* kernel do not fit it or each other: the kernels
// themselves (library/library_ops.h has their table) check nothing. Other kernels pass.
void check_linalg_operands(const Library& op, std::span<const TensorType* const> operands, std::vector<sym::Expr>* guards);

}  // namespace toroid
