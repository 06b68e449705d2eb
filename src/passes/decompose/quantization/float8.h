// Operators on tensors of 8-bit floats (F8E4M3FN and F8E5M2).
//
// Such a tensor of the model is one of its bits here, U8. What moves elements moves bits; conversions are formulas
// (formula/quantization/float8.h), and nothing else computes with them, as in PyTorch.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// Whether an argument or a result of the node has such a dtype.
bool has_float8_values(const Graph& graph, const Node& node);

// The function for a node with such arguments or results; null if there is none.
Decomposition find_float8_decomposition(const Schema& schema);

}  // namespace toroid
