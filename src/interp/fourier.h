// The discrete Fourier transform of rows whose length is known when the program runs.
//
//   fourier.transform   re [.., n], im [.., n] (forward)   re, im: sum over j of x[j] exp(∓2 pi i j k / n), - when forward
//
// Lengths whose prime factors are small go by Cooley and Tukey's factorisation, the others by Bluestein's: a convolution with a
// chirp, of a power of two. All in doubles, rounded once. See library_ops.h for what calls it.
#pragma once

#include "interp/library_ops.h"

namespace toroid::fourier {

void transform(const LibraryCall& call);

}  // namespace toroid::fourier
