// The Fourier transforms of interp/fourier.h on vectors: rows of F32 or F64, in their own precision.
//
// Stockham's form of Cooley and Tukey's factorisation, which needs no reordering: each stage reads one array and writes another. Several
// rows lie interleaved, element by element, so that the innermost loops run over neighbours from the first stage on:
//
//   for each radix r of n, with m the rest and s the rows times the radices so far:
//     for p in 0..m, q in 0..s:   y[q + s (r p + k)] = exp(-2 pi i p k / (r m)) * sum over j of x[q + s (p + m j)] exp(-2 pi i j k / r)
//
// Real rows of even length are halves of that many complex numbers: elements at even places are real parts, at odd places imaginary ones.
// Elements that are not finite are taken out before and their terms added after, so they reach what they reach in the plain sum.
#pragma once

#include <string_view>

#include "runtime/kernels/registry/library.h"

namespace toroid {

// Whether they take this call, inputs of any strides and outputs contiguous: the kernel by its name in library/library_ops.h, the length,
// and the dtype. Lengths with a prime factor beyond some thousand are left to any_length.h.
bool can_run_fourier(std::string_view name, const KernelCall& call);

}  // namespace toroid
