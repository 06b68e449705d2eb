// Operators on complex tensors.
//
// A complex tensor of the model is a real one with a last dim of size 2 here: real part, imaginary part. Nodes that take
// or give complex tensors are decomposed by rows of their own, whose arguments are such pairs; Decomposer's
// argument_types says which.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// Whether an argument or a result of the node is complex.
bool has_complex_values(const Graph& graph, const Node& node);

// The function for a node with complex arguments or results; null if there is none.
Decomposition find_complex_decomposition(const Schema& schema);

// The type of the pairs that stand for a tensor of this complex type.
TensorType type_of_pairs(const TensorType& type);

}  // namespace toroid
