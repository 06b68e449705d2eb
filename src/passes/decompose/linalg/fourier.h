// Discrete Fourier transforms along the last dim: the kernels of runtime/kernels/fourier/fourier.h. Nothing is divided.
#pragma once

#include "graph/builder.h"

namespace toroid {

struct Complex {
  Tensor re, im;  // equal sizes and dtypes, real floats
};

// sum over j of x[…, j] * exp(±2 pi i j k / n) for every k: - for `forward`, + else.
Complex fourier_transform(Complex x, bool forward);

// The same of real numbers, for k up to n/2; the others are conjugates of these. n is at least 1.
Complex half_spectrum(Tensor x, bool forward);

// The same of a spectrum whose elements up to size/2 are given, and whose others are conjugates of these: real numbers, `size` of them.
Tensor real_signal(Complex half, sym::Expr size, bool forward);

}  // namespace toroid
