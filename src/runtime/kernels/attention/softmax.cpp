#include "runtime/kernels/attention/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

constexpr float kLeast = -86.6f;  // exp of less is not normal

// Keeps the compiler from fusing the multiplication that gave x with what follows. clang fuses within an expression alone.
template <class Vector>
TOROID_INLINE void keep_rounded([[maybe_unused]] Vector& x) {
#ifdef TOROID_NAMES_INSTRUCTIONS
  asm("" : "+x"(x));
#elif defined(__aarch64__) && !defined(__clang__)
  asm("" : "+w"(x));
#endif
}

// x = exp(x) for x <= 0: x = n ln 2 + r, exp(r) by a polynomial for |r| <= ln 2 / 2 (Cephes' expf, S. Moshier), 2^n by adding to the
// exponent.
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

// f over all lanes, one half with the other.
template <class Vector, class F>
TOROID_INLINE float combined(const Vector& x, F f) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  float parts[kLanes];
  std::memcpy(parts, &x, sizeof parts);
#pragma GCC unroll 4
  for (int width = kLanes / 2; width > 0; width /= 2) {
#pragma GCC unroll 16
    for (int l = 0; l < width; ++l) parts[l] = f(parts[l], parts[l + width]);
  }
  return parts[0];
}

template <class Vector, class Integers>
TOROID_INLINE float softmax_part(float* row, int64_t count, float scale, RunningSoftmax& running) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  // A copy of the tail, so that every step is a whole vector: -inf takes no part in the softmax.
  const int64_t whole = count / kLanes * kLanes;
  Vector tail = Vector{} - HUGE_VALF;
  if (whole < count) std::memcpy(&tail, row + whole, static_cast<size_t>(count - whole) * sizeof(float));
  for (int64_t j = 0; j < count - whole; ++j) tail[j] *= scale;
  Vector most = tail, not_a_number = {};
  for (int64_t j = 0; j < whole; j += kLanes) {
    Vector x;
    std::memcpy(&x, row + j, sizeof x);
    x *= scale;
    most = x > most ? x : most;
    not_a_number = x != x ? x : not_a_number;
  }
  const float largest = std::max(running.most, combined(most, [](float a, float b) { return a > b ? a : b; }));
  // What is not a number makes a sum so; others are made 0, so that infinities do not.
  const Vector not_a_number_in_tail = tail != tail ? tail : Vector{};
  const float nan_or_zero = combined(not_a_number + not_a_number_in_tail, [](float a, float b) { return a + b; });
  const bool has_nan = std::isnan(running.sum) || std::isnan(nan_or_zero);
  if (has_nan || largest == -HUGE_VALF) {
    for (int64_t j = 0; j < count; ++j) row[j] = has_nan ? std::nanf("") : 0.0f;
    if (has_nan) running.sum = std::nanf("");
    return 1;
  }
  Vector sums = {};
  for (int64_t j = 0; j < whole; j += kLanes) {
    Vector x;
    std::memcpy(&x, row + j, sizeof x);
    x *= scale;
    keep_rounded(x);  // as in `largest`: fused, a score of 1e9 would be up to 32 away from itself
    x -= largest;
    exp_of_negative<Vector, Integers>(x);
    sums += x;
    std::memcpy(row + j, &x, sizeof x);
  }
  if (whole < count) {
    tail -= largest;
    exp_of_negative<Vector, Integers>(tail);
    sums += tail;
    std::memcpy(row + whole, &tail, static_cast<size_t>(count - whole) * sizeof(float));
  }
  const float sum = combined(sums, [](float a, float b) { return a + b; });
  const float factor = running.most == largest ? 1 : std::exp(running.most - largest);
  running.most = largest;
  running.sum = running.sum * factor + sum;
  return factor;
}

template <class Vector>
TOROID_INLINE void scale_row(float* row, int64_t count, float factor) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Vector x;
    std::memcpy(&x, row + j, sizeof x);
    x *= factor;
    std::memcpy(row + j, &x, sizeof x);
  }
  for (; j < count; ++j) row[j] *= factor;
}

template <class Vector>
TOROID_INLINE void add_mask(float* row, const float* added, int64_t step, int64_t count, float scale) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  int64_t j = 0;
  for (; j + kLanes <= count && step <= 1; j += kLanes) {
    Vector x, y = Vector{} + added[0];
    std::memcpy(&x, row + j, sizeof x);
    if (step == 1) std::memcpy(&y, added + j, sizeof y);
    x = x * scale + y;
    std::memcpy(row + j, &x, sizeof x);
  }
  for (; j < count; ++j) row[j] = row[j] * scale + added[j * step];
}

template <class Vector, class Integers>
TOROID_INLINE void forbid(float* row, const uint8_t* allowed, int64_t step, int64_t count, float scale) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
  int64_t j = 0;
  for (; j + kLanes <= count && step == 1; j += kLanes) {
    Vector x;
    Bytes bytes;
    std::memcpy(&x, row + j, sizeof x);
    std::memcpy(&bytes, allowed + j, sizeof bytes);
    const Vector forbidden = Vector{} - HUGE_VALF, scaled = x * scale;
    x = __builtin_convertvector(bytes, Integers) != 0 ? scaled : forbidden;
    std::memcpy(row + j, &x, sizeof x);
  }
  for (; j < count; ++j) row[j] = allowed[j * step] != 0 ? row[j] * scale : -HUGE_VALF;
}

}  // namespace

namespace softmax_levels {

#ifdef __x86_64__
TOROID_AVX512 void add_mask_avx512(float* row, const float* added, int64_t step, int64_t count, float scale) {
  add_mask<Vector16>(row, added, step, count, scale);
}
TOROID_AVX2 void add_mask_avx2(float* row, const float* added, int64_t step, int64_t count, float scale) {
  add_mask<Vector8>(row, added, step, count, scale);
}
TOROID_AVX512 void forbid_avx512(float* row, const uint8_t* allowed, int64_t step, int64_t count, float scale) {
  forbid<Vector16, Integers16>(row, allowed, step, count, scale);
}
TOROID_AVX2 void forbid_avx2(float* row, const uint8_t* allowed, int64_t step, int64_t count, float scale) {
  forbid<Vector8, Integers8>(row, allowed, step, count, scale);
}
TOROID_AVX512 float part_avx512(float* row, int64_t count, float scale, RunningSoftmax& running) {
  return softmax_part<Vector16, Integers16>(row, count, scale, running);
}
TOROID_AVX2 float part_avx2(float* row, int64_t count, float scale, RunningSoftmax& running) {
  return softmax_part<Vector8, Integers8>(row, count, scale, running);
}
TOROID_AVX512 void scale_avx512(float* row, int64_t count, float factor) { scale_row<Vector16>(row, count, factor); }
TOROID_AVX2 void scale_avx2(float* row, int64_t count, float factor) { scale_row<Vector8>(row, count, factor); }
#endif
void add_mask_baseline(float* row, const float* added, int64_t step, int64_t count, float scale) {
  add_mask<Vector4>(row, added, step, count, scale);
}
void forbid_baseline(float* row, const uint8_t* allowed, int64_t step, int64_t count, float scale) {
  forbid<Vector4, Integers4>(row, allowed, step, count, scale);
}
float part_baseline(float* row, int64_t count, float scale, RunningSoftmax& running) {
  return softmax_part<Vector4, Integers4>(row, count, scale, running);
}
void scale_baseline(float* row, int64_t count, float factor) { scale_row<Vector4>(row, count, factor); }

}  // namespace softmax_levels

using namespace softmax_levels;

float softmax_part_f32(float* row, int64_t count, float scale, RunningSoftmax& running) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return part_avx512(row, count, scale, running);
  if (vector_set() == VectorSet::Avx2) return part_avx2(row, count, scale, running);
#endif
  return part_baseline(row, count, scale, running);
}

void add_mask_f32(float* row, const float* added, int64_t step, int64_t count, float scale) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return add_mask_avx512(row, added, step, count, scale);
  if (vector_set() == VectorSet::Avx2) return add_mask_avx2(row, added, step, count, scale);
#endif
  add_mask_baseline(row, added, step, count, scale);
}

void forbid_f32(float* row, const uint8_t* allowed, int64_t step, int64_t count, float scale) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return forbid_avx512(row, allowed, step, count, scale);
  if (vector_set() == VectorSet::Avx2) return forbid_avx2(row, allowed, step, count, scale);
#endif
  forbid_baseline(row, allowed, step, count, scale);
}

void scale_row_f32(float* row, int64_t count, float factor) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return scale_avx512(row, count, factor);
  if (vector_set() == VectorSet::Avx2) return scale_avx2(row, count, factor);
#endif
  scale_baseline(row, count, factor);
}

}  // namespace toroid
