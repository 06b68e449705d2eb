// The softmax of one row of attention scores.
#pragma once

#include <cstdint>

namespace toroid {

// row[j] = exp(row[j] - largest) / sum of them, for `count` elements; NaN anywhere makes all NaN. When all are -inf (a query that may look
// nowhere) all become 0. exp is off by at most 2 units in the last place; results below 2^-125 become 0.
void softmax_row_f32(float* row, int64_t count);

}  // namespace toroid
