// Factors of products that are 8-bit floats, widened as formula::float8_halves does:
//
//   cast(bitcast(where(magnitude == 0x7f, 0x7e00, magnitude << 7 | sign << 8), f16), f32)     the values of F8E4M3FN's bits, times 2^-8
//   cast(bitcast(bits << 8, f16), f32)                                                         the values of F8E5M2's
//
// Hopper's tensor cores take the bits. In a call they are U8 on both sides, and the result F32; the operation says which are F8E5M2.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace toroid {

// The bits, U8, that the value is so made of, their dtype, and what their values are multiplied by.
struct Float8Factor {
  ValueId bits;
  DType dtype;
  double scale;
};
// None where it is another value.
std::optional<Float8Factor> as_float8_factor(const Graph& graph, ValueId factor);

}  // namespace toroid
