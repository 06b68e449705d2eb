// Einstein summation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// The sum of products that `equation` names as numpy.einsum does: "bij,bjk->bik". A letter for each dim, "..." for dims that broadcast; a
// letter that occurs twice in one term takes the diagonal; without "->" the result has the letters that occur once, in alphabetic order.
// Tensors have one dtype, which the result has, but that sums of integers are I64.
//
// Multiplies from the left to the right, or as `path` says: pairs of positions among the tensors that are left, of which the product goes
// to the end. Throws Error{InvalidModel} for a wrong equation or path.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors, const std::optional<Dims>& path = {});

}  // namespace toroid::formula
