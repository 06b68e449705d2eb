// Discrete Fourier transforms by Cooley and Tukey's factorisation, made of matrix products and element-wise operations.
#pragma once

#include "graph/builder.h"

namespace toroid {

struct Complex {
  Tensor re, im;  // equal sizes and dtypes, F32 or F64
};

// sum over j of x[…, j] * exp(±2 pi i j k / n) for every k, along the last dim: - for `forward`, + else. Nothing is divided.
// A symbolic size n takes the kernel of interp/fourier.h instead.
Complex fourier_transform(Complex x, bool forward);

}  // namespace toroid
