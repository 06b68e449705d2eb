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

// A product of two of the tensors that are left. Both go, and the product comes to the front, or to the end where there is a path.
struct EinsumPair {
  size_t left = 0, right = 0;  // left < right
  std::string equation;
};
// The same sum as products of two tensors, for whoever multiplies these himself: "ij,jk,kl->il" is "ij,jk->ik" of tensors 0 and 1, then
// "ik,kl->il".
// Throws Error{InvalidModel} for a wrong path, and for fewer than two terms.
std::vector<EinsumPair> einsum_in_pairs(const std::string& equation, const std::optional<Dims>& path = {});

}  // namespace toroid::formula
