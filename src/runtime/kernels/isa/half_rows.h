// Rows of bfloat16 and float16 to float32 and back, rounded to nearest even; NaN stays NaN, infinities and what is not normal are kept.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace toroid {

// `dtype`: BF16 or F16.
void widen_row(DType dtype, const uint16_t* from, int64_t count, float* to);
// The same of elements that lie `stride` apart.
void widen_elements(DType dtype, const uint16_t* from, int64_t stride, int64_t count, float* to);
void round_row(DType dtype, const float* from, int64_t count, uint16_t* to);
// The same of several rows, which are so many elements apart.
void round_rows(DType dtype, const float* from, int64_t from_row, int64_t rows, int64_t count, uint16_t* to, int64_t to_row);

}  // namespace toroid
