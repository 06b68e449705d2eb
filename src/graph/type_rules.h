// The type that each core operation gives, from its operands.
//
// The builder takes results' types from here, or has those checked that it knows better (sizes that broadcast); the verifier checks them
// again, and the text form may leave types out: `t = mul(x, x)`.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace toroid {

// The types of the operation's results. Some operations leave their shape or dtype open (reshape, full, cast, library
// calls, everything at import level): then `declared` has the answer, and is checked for what must hold of it. Throws
// Error{InvalidModel} that says which rule is broken, or that a declared type is needed and missing. Control flow is left to
// control_flow.h, which knows the subgraphs. Sizes that must be equal, and may or may not be, become `guards`; null lets them pass.
std::vector<TensorType> result_types(const Op& op, std::span<const TensorType* const> operands, const std::vector<TensorType>& declared,
                                     std::vector<sym::Expr>* guards = nullptr);

// Same dtype and rank, and no size that is provably different. Strides and devices are not compared.
bool may_agree(const TensorType& a, const TensorType& b);

// Whether two sizes that must be equal can be. What is not decided becomes one of `guards`, once; null lets it pass.
bool agree(sym::Expr a, sym::Expr b, std::vector<sym::Expr>* guards);
// The same for a fact: a 0/1 expression over sizes.
bool may_hold(sym::Expr fact, std::vector<sym::Expr>* guards);

}  // namespace toroid
