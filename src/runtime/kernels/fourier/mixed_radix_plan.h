// What the transforms of a length share: its factors, and the roots of unity that the stages turn by.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace toroid::mixed_radix {

// The prime factors of n >= 1, the largest one last, but for fours: these come first, for they need no multiplications of their own, then a
// two, then odd primes.
std::vector<int64_t> radices_of(int64_t n);

// What transforms of n complex numbers need, and of 2n real ones. T is float or double.
template <class T>
struct Plan {
  explicit Plan(int64_t length);

  int64_t n;
  std::vector<int64_t> radices;
  std::vector<T> roots_re, roots_im;  // exp(-2 pi i k / n)
  std::vector<T> half_re, half_im;    // exp(-pi i k / n)
};

// For the plan of a call, which keeps it: a run asks for none. Kept while they are few and small, for making one takes longer than one
// transform.
template <class T>
std::shared_ptr<const Plan<T>> plan_of(int64_t n);

}  // namespace toroid::mixed_radix
