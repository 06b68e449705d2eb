#include "runtime/softmax.h"

#include <cmath>
#include <cstring>

#include "runtime/vector_sets.h"

namespace toroid {
namespace {

constexpr float kLeast = -86.6f;  // exp of less is not normal

// x = exp(x) for x <= 0: x = n ln 2 + r, exp(r) by a polynomial for |r| <= ln 2 / 2 (Cephes' expf, S. Moshier), 2^n by adding to the exponent.
template <class Vector, class Integers>
TOROID_INLINE void exp_of_negative(Vector& x) {
  constexpr float kLog2E = 1.44269504088896341f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, which the low bits then hold
  const Vector shifted = x * kLog2E + kRound;
  const Vector n = shifted - kRound;
  const Vector r = (x - n * kLn2High) - n * kLn2Low;
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Integers bits, steps;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&steps, &shifted, sizeof steps);
  bits += steps << 23;
  std::memcpy(&p, &bits, sizeof p);
  const Vector result = x < kLeast ? Vector{} : p;
  x = x == x ? result : x;
}

template <class Vector, class Integers>
TOROID_INLINE void softmax(float* row, int64_t count) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  // A copy of the tail, so that every step is a whole vector: -inf takes no part in the softmax.
  const int64_t whole = count / kLanes * kLanes;
  Vector tail = Vector{} - HUGE_VALF;
  std::memcpy(&tail, row + whole, static_cast<size_t>(count - whole) * sizeof(float));
  Vector most = tail, not_a_number = {};
  for (int64_t j = 0; j < whole; j += kLanes) {
    Vector x;
    std::memcpy(&x, row + j, sizeof x);
    most = x > most ? x : most;
    not_a_number = x != x ? x : not_a_number;
  }
  float largest = -HUGE_VALF;
  bool has_nan = false;
  for (int l = 0; l < kLanes; ++l) {
    largest = std::fmax(largest, most[l]);
    has_nan = has_nan || not_a_number[l] != not_a_number[l];
  }
  for (int64_t j = whole; j < count; ++j) has_nan = has_nan || std::isnan(row[j]);
  if (has_nan || largest == -HUGE_VALF) {
    for (int64_t j = 0; j < count; ++j) row[j] = has_nan ? std::nanf("") : 0.0f;
    return;
  }
  Vector sums = {};
  for (int64_t j = 0; j < whole; j += kLanes) {
    Vector x;
    std::memcpy(&x, row + j, sizeof x);
    x -= largest;
    exp_of_negative<Vector, Integers>(x);
    sums += x;
    std::memcpy(row + j, &x, sizeof x);
  }
  tail -= largest;
  exp_of_negative<Vector, Integers>(tail);
  sums += tail;
  float sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  const float inverse = 1.0f / sum;
  for (int64_t j = 0; j < whole; j += kLanes) {
    Vector x;
    std::memcpy(&x, row + j, sizeof x);
    x *= inverse;
    std::memcpy(row + j, &x, sizeof x);
  }
  tail *= inverse;
  std::memcpy(row + whole, &tail, static_cast<size_t>(count - whole) * sizeof(float));
}

#ifdef __x86_64__
TOROID_AVX512 void softmax_avx512(float* row, int64_t count) { softmax<Vector16, Integers16>(row, count); }
TOROID_AVX2 void softmax_avx2(float* row, int64_t count) { softmax<Vector8, Integers8>(row, count); }
#endif

}  // namespace

void softmax_row_f32(float* row, int64_t count) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return softmax_avx512(row, count);
  if (vector_set() == VectorSet::Avx2) return softmax_avx2(row, count);
#endif
  softmax<Vector4, Integers4>(row, count);
}

}  // namespace toroid
