// Numbers as elements of a dtype hold them: rounded, wrapped or truncated.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace toroid {

// As a store to a tensor of that dtype changes it.
double rounded_to(DType dtype, double value);
int64_t wrapped_to(DType dtype, int64_t value);
// Cast of a float to an integer dtype: truncates; NaN and what does not fit give the least integer, as x86 does.
int64_t truncated_to(DType dtype, double value);

// A number as an element of `dtype` holds it, in one spelling: bool for Bool, an integer that fits or a double that is a 16-bit float. F32
// and F64 keep the double, which is rounded where it is used; a symbolic integer stays as it is.
Scalar element_of(DType dtype, const Scalar& value);

}  // namespace toroid
