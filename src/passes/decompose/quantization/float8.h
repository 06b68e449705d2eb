// Operators on tensors of 8-bit floats (F8E4M3FN and F8E5M2).
//
// Such a tensor of the model is one of its bits here, U8. What moves elements moves bits; conversions are formulas over bits, and
// nothing else computes with them, as in PyTorch.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

inline bool is_float8(DType dtype) { return dtype == DType::F8E4M3FN || dtype == DType::F8E5M2; }

// Whether an argument or a result of the node has such a dtype.
bool has_float8_values(const Graph& graph, const Node& node);

// The function for a node with such arguments or results; null if there is none.
Decomposition find_float8_decomposition(const Schema& schema);

// The values of bits of `dtype`, as F32.
Tensor float8_values(Tensor bits, DType dtype);
// The bits of values rounded to `dtype`, to even in the middle; what is too large becomes NaN, or infinite in F8E5M2.
Tensor float8_bits(Tensor values, DType dtype);

}  // namespace toroid
