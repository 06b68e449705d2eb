#include "runtime/kernels/conv/backward_weights/write_filters.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/transpose_square.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

constexpr int64_t kMostTaps = 64;  // that vectors take

// A square of so many taps and channels in registers. What is beyond the taps is the last one of them again.
template <class Integers, class Vector, int kLanes>
TOROID_INLINE void load_square(const float* from, int64_t tap_row, int64_t taps, Vector (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(&rows[i], from + std::min<int64_t>(i, taps - 1) * tap_row, sizeof rows[i]);
  exchange_squares<kLanes / 2, Integers>(rows);
}

// Of as many channels as a vector has lanes. Writes up to a vector more than that: whole vectors, each of which what is written later
// overwrites where it has more than its channel's taps. So the last taps come first.
template <class Vector, class Integers>
TOROID_INLINE void interleave_lanes(const float* from, int64_t tap_row, int64_t taps, float* to) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  for (int64_t t = (taps - 1) / kLanes * kLanes; t >= 0; t -= kLanes) {
    Vector rows[kLanes];
    load_square<Integers>(from + t * tap_row, tap_row, std::min(kLanes, taps - t), rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) std::memcpy(to + i * taps + t, &rows[i], sizeof rows[i]);
  }
}

// How many channels that were.
template <class Vector, class Integers>
TOROID_INLINE int64_t interleave_vectors(const float* from, int64_t tap_row, int64_t taps, int64_t channels, float* to) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  const int64_t whole = taps <= kMostTaps ? channels / kLanes * kLanes : 0;
  for (int64_t c = 0; c < whole; c += kLanes) {
    const bool is_last = (channels - c - kLanes) * taps < kLanes;
    float last[kLanes * (kMostTaps + 1)];
    interleave_lanes<Vector, Integers>(from + c, tap_row, taps, is_last ? last : to + c * taps);
    if (is_last) std::memcpy(to + c * taps, last, static_cast<size_t>(kLanes * taps) * sizeof(float));
  }
  return whole;
}

#ifdef __x86_64__
TOROID_AVX512 int64_t interleave_avx512(const float* from, int64_t tap_row, int64_t taps, int64_t channels, float* to) {
  return interleave_vectors<Vector16, Integers16>(from, tap_row, taps, channels, to);
}
TOROID_AVX2 int64_t interleave_avx2(const float* from, int64_t tap_row, int64_t taps, int64_t channels, float* to) {
  return interleave_vectors<Vector8, Integers8>(from, tap_row, taps, channels, to);
}
#endif

}  // namespace

void interleave_taps(const float* from, int64_t tap_row, int64_t taps, int64_t channels, float* to) {
  if (taps == 1) {
    std::copy_n(from, channels, to);
    return;
  }
  int64_t done = 0;
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) {
    done = interleave_avx512(from, tap_row, taps, channels, to);
  } else if (vector_set() == VectorSet::Avx2) {
    done = interleave_avx2(from, tap_row, taps, channels, to);
  }
#endif
  for (int64_t c = done; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) to[c * taps + t] = from[t * tap_row + c];
  }
}

}  // namespace toroid
