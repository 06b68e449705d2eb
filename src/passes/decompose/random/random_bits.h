// What random operators are made of: bits, uniform and normal numbers for the elements of a shape.
//
// Element i of a tensor, in row-major order, draws from the Philox block whose key is the program's seed and whose counter is
//
//   words 0 and 1   i + 2^40 * stream       (RandomStreams: which draw of the program)
//   words 2 and 3   the number of the call
//
// In the body of a loop, key and number of the call are those of the run of the body: loop_random (interp/evaluate.h).
//
// So it does not depend on layout, fusion, vectors or threads, and drawing it again gives it again: passes may treat a
// draw as any element-wise operation of the random state.
#pragma once

#include "library/random/random_kernels.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// One draw: 128 bits for each element of `sizes`. Throws Error{Unsupported} for more than 2^40 of them.
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

// Above 0 with mean 1, as F32 or F64.
Tensor standard_exponential(Decomposer& d, Sizes sizes, DType dtype);
// Bool: true with probability p, to 2^-32; never and always for 0 and 1.
Tensor chance(Decomposer& d, Sizes sizes, double p);
// The same of bits drawn before, I32; p is neither 0 nor 1.
Tensor chance_of(Tensor bits, double p);
// I64 in [from, from + count), for count in [1, 2^64) as bits of an I64; 0 stands for 2^64. Symbolic counts are below 2^63.
Tensor uniform_integer(Decomposer& d, Sizes sizes, sym::Expr from, sym::Expr count);
// I64 in [0, count), for count of rank 0 and not 0.
Tensor uniform_integer(Decomposer& d, Sizes sizes, Tensor count);

// The stream of a draw that a library kernel makes.
int64_t stream_of(Decomposer& d);

// Bool, rank 0: whether all elements hold.
Tensor all_of(Tensor holds);
// `x`, once `holds` (Bool, rank 0) was found true; else the call ends with the message of library/random/random_kernels.h.
Tensor checked(Decomposer& d, Tensor x, Tensor holds, RandomRequirement requirement);

}  // namespace toroid
