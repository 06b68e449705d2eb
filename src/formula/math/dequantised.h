// Tensors that are computed from bytes by a scale and a zero point, as dequantisation is decomposed.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace toroid {

// value = (quantised - zero) * scale, all of one shape; zero is an integer. Undefined: 0, 1.
struct Dequantised {
  Tensor quantised, zero, scale;  // quantised: I8 or U8
};

// What the tensor is computed from; nothing where it is no such.
std::optional<Dequantised> dequantised(Tensor t);

// The number that all elements are, where the program states it, perhaps behind conversions and views.
std::optional<double> stated_number(const Scalar& scalar);
std::optional<double> stated_number(Tensor t);

// Is it the same along the dim? By what it is made of, so it may be without being found out.
bool is_constant_along(Tensor t, size_t dim);

// The node that made it, and that node's input.
inline const Node& node_of(Tensor t) { return t.builder().graph().producer(t.id()); }
inline Tensor operand(Tensor t, size_t i) { return t.builder().wrap(node_of(t).inputs[i]); }

}  // namespace toroid
