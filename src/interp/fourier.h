// The discrete Fourier transform of rows.
//
//   fourier.transform   re [.., n], im [.., n] (forward)       re, im [.., n]: sum over j of x[j] exp(∓2 pi i j k / n), - when forward
//   fourier.half        x [.., n] (forward)                    re, im [.., n/2 + 1] of real numbers; the others are conjugates
//   fourier.real        re, im [.., n/2 + 1] (forward)         [.., n] of numbers of which the last are conjugates of the first
//
// A term whose factor is 0 is left out: a NaN or an infinity reaches the parts whose cosine or sine is not 0, as in PyTorch. So the
// imaginary part of what is its own conjugate (k = 0 and k = n/2) is 0 in a half, and is not read by fourier.real.
//
// Lengths whose prime factors are small go by Cooley and Tukey's factorisation, the others by Bluestein's: a convolution with a
// chirp, of a power of two. All in doubles, rounded once. runtime/kernels/fourier/fourier.h has fast ones. See library_ops.h for what calls them.
#pragma once

#include <complex>

#include "interp/library_ops.h"

namespace toroid::fourier {

void transform(const LibraryCall& call);
void half(const LibraryCall& call);
void real(const LibraryCall& call);

// exp(-2 pi i k / n) for 0 <= k <= n; 0 and 1 are exact, and so are symmetries.
std::complex<double> root(int64_t k, int64_t n);

inline bool is_own_conjugate(int64_t k, int64_t n) { return k == 0 || 2 * k == n; }

// What is not finite of element j; the finite part is 0.
struct Term {
  int64_t j;
  double re, im;
};

// Adds the terms' parts of a forward transform of length n to its first `count` results. `im` may be null.
template <class T>
void add_terms(std::span<const Term> terms, int64_t n, T* re, T* im, int64_t count);

}  // namespace toroid::fourier
