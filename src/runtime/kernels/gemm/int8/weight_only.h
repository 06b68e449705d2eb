// Products of floats with a matrix of int8, as models with weight-only quantisation have them: the bytes are widened as they are read.
#pragma once

#include "runtime/kernels/registry/library.h"

namespace toroid {

// a of F32, BF16 or F16, b of I8, the result of F32, BF16 or F16.
void run_int8_weights(const KernelCall& call, Int8Algorithm form);

}  // namespace toroid
