// The types that a control-flow operator gives, from its operands and its subgraphs.
//
//   cond(predicate, @yes, @no, [operands])               both branches take the operands and give the results
//   while_loop(@condition, @body, [carried], [others])   the body gives the carried values anew; they are the results
//   scan(@body, [carried], [sliced], [others])           the body gives the carried values anew, and a slice of each further result
//   map_impl(@body, [sliced], [others])                  the body gives a slice of each result
//   vmap(@body, [sliced], [others], randomness)          the same, all slices at once
//   associative_scan(@body, [sliced], [others])          the body joins two slices of each tensor
//
// A slice is a tensor without its first dim. Nothing that a model records of such an operator is needed: the types of its operands
// and subgraphs decide.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace toroid {

// One type a result, without strides. Throws Error{InvalidModel} where operands, subgraphs and results do not fit each other, naming
// which. Sizes that must be equal, and may or may not be, become `guards`; null lets them pass.
std::vector<TensorType> control_flow_types(const HigherOrder& op, std::span<const TensorType* const> operands,
                                           std::span<const Graph> subgraphs, std::vector<sym::Expr>* guards);

}  // namespace toroid
