// Tensors of dtypes that the core does not compute with, as tensors of dtypes that it does:
//
//   complex        pairs of real numbers in a last dim of size 2: complex.h has the operators
//   8-bit floats   their bits, U8: float8.h has the operators
//
// So are such inputs, outputs and weights of a program; their bytes are the same.
#pragma once

#include "graph/graph.h"

namespace toroid {

// The type that stands for a recorded one, with its strides and offset; most types stand for themselves.
TensorType type_held(const TensorType& type);

}  // namespace toroid
