// The discrete Fourier transform of rows, plainly: sums in doubles, rounded once. runtime/kernels/fourier/fourier.h has fast ones.
//
//   fourier.transform   re [.., n], im [.., n] (forward)       re, im [.., n]: sum over j of x[j] exp(∓2 pi i j k / n), - when forward
//   fourier.half        x [.., n] (forward)                    re, im [.., n/2 + 1] of real numbers; the others are conjugates
//   fourier.real        re, im [.., n/2 + 1] (forward)         [.., n] of numbers of which the last are conjugates of the first
//
// A term whose factor is 0 is left out: a NaN or an infinity reaches the parts whose cosine or sine is not 0, as in PyTorch. So the
// imaginary part of what is its own conjugate (k = 0 and k = n/2) is 0 in a half, and is not read by fourier.real.
#pragma once

#include "library/library_ops.h"

namespace toroid::fourier {

void transform(const LibraryCall& call);
void half(const LibraryCall& call);
void real(const LibraryCall& call);

}  // namespace toroid::fourier
