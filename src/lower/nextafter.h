// The neighbour of a 16-bit float. Kernels compute with F16 and BF16 as F32, whose neighbours are nearer, so it is found
// in the bits of the 16-bit numbers.
#pragma once

#include "loop/loop.h"

namespace toroid {

// nextafter(a, b) in `dtype`, which is F16 or BF16; the operands are rounded to it first.
loop::ExprId narrow_nextafter(loop::ExprTable& exprs, loop::ExprId a, loop::ExprId b, DType dtype);

}  // namespace toroid
