// Factors of products that are 8-bit floats, widened as formula::float8_halves does:
//
//   cast(bitcast(where(magnitude == 0x7f, 0x7e00, magnitude << 7 | sign << 8), f16), f32)     the values of the bits, times 2^-8
//
// Hopper's tensor cores take the bits. In a call they are U8 on both sides, and the result F32.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace toroid {

// The bits, U8, of F8E4M3FN, that the value is so made of; none where it is another one.
std::optional<ValueId> bits_of_e4m3(const Graph& graph, ValueId factor);
inline constexpr double kHalfOfE4M3 = 1.0 / 256;  // what the value is multiplied by

}  // namespace toroid
