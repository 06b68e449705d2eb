// What random operators are made of: bits, uniform and normal numbers for the elements of a shape.
//
// Element i of a tensor, in row-major order, draws from the Philox block whose key is the program's seed and whose counter is
//
//   words 0 and 1   i + 2^40 * stream       (RandomStreams: which draw of the program)
//   words 2 and 3   the number of the call
//
// So it does not depend on layout, fusion, vectors or threads, and drawing it again gives it again: passes may treat a
// draw as any element-wise operation of the random state.
#pragma once

#include "passes/decompose/decompose.h"

namespace toroid {

// One draw: 128 bits for each element of `sizes`. Throws Error{Unsupported} where nothing may be drawn.
class RandomBits {
 public:
  RandomBits(Decomposer& d, Sizes sizes);
  Tensor low() const { return bits(ScalarOp::PhiloxLow); }    // I64: 64 bits
  Tensor high() const { return bits(ScalarOp::PhiloxHigh); }  // I64: the other 64
  Tensor word(int i) const;                                   // I32: 32 bits; i in [0, 4)

 private:
  Tensor bits(ScalarOp op) const { return counter_.builder().pointwise(op, {counter_, seed_, call_}); }
  Tensor counter_, seed_, call_;
};

// In [0, 1), as fine as the dtype is near 1 (F16: 11 bits, BF16: 8, F32: 24, F64: 53): never rounded up to 1.
Tensor unit_uniform(Decomposer& d, Sizes sizes, DType dtype);
// In (0, 1], as F32 (from 31 bits) or F64 (from 53 bits): for logarithms.
Tensor positive_uniform(Decomposer& d, Sizes sizes, DType dtype);
// Mean 0, deviation 1, as F32 or F64, after Box and Muller.
Tensor standard_normal(Decomposer& d, Sizes sizes, DType dtype);

}  // namespace toroid
