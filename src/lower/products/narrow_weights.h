// Weights of eight bits, as what they become in a product says: int8, or 8-bit floats by the formula of formula/quantization/float8.h.
//
//   element = convert(w[n, k]) * scale[n]        w: i8, or u8 through the formula; several scales or none, before or after it
//
// Expressions are interned, so the formula is recognised by making it once more of the same load.
#pragma once

#include <optional>

#include "loop/loop.h"

namespace toroid {

struct NarrowElement {
  loop::ExprId load;                  // of the buffer that has the numbers
  DType dtype;                        // I8, F8E4M3FN or F8E5M2
  std::optional<loop::ExprId> scale;  // F32, the same along the depth
};

// None where the expression is another one.
std::optional<NarrowElement> narrow_element(loop::ExprTable& exprs, loop::ExprId element, sym::Expr depth);

}  // namespace toroid
