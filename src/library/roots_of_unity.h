// The factors of Fourier transforms.
#pragma once

#include <complex>
#include <cstdint>

namespace toroid {

// exp(-2 pi i k / n) for 0 <= k <= n; 0 and 1 are exact, and so are symmetries.
std::complex<double> root_of_unity(int64_t k, int64_t n);

// Of the transform of n real numbers: is its k-th element real?
inline bool is_own_conjugate(int64_t k, int64_t n) { return k == 0 || 2 * k == n; }

}  // namespace toroid
