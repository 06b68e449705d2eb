// The discrete Fourier transform of rows of any length: those whose prime factors are too large for fourier.h. Kernels as in
// interp/fourier.h.
//
// Lengths whose prime factors are small go by Cooley and Tukey's factorisation, the others by Bluestein's: a convolution with a
// chirp, of a power of two. All in doubles, rounded once.
#pragma once

#include <cstdint>

#include "base/span.h"
#include "library/library_ops.h"

namespace toroid::any_length_fourier {

void transform(const LibraryCall& call);
void half(const LibraryCall& call);
void real(const LibraryCall& call);

// What is not finite of element j; the finite part is 0.
struct Term {
  int64_t j;
  double re, im;
};

// Adds the terms' parts of a forward transform of length n to its first `count` results. `im` may be null.
template <class T>
void add_terms(Span<const Term> terms, int64_t n, T* re, T* im, int64_t count);

}  // namespace toroid::any_length_fourier
