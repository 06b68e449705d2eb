// Transposes of small squares in registers.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

// The elements at `places` of both vectors, those of `second` behind those of `first`.
template <class Vector, class Integers>
TOROID_INLINE void pick(const Vector& first, const Vector& second, const Integers& places, Vector& result) {
#ifdef __clang__  // which has no such operation with places that are not constants
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  for (int l = 0; l < kLanes; ++l) result[l] = places[l] < kLanes ? first[places[l]] : second[places[l] - kLanes];
#else
  result = __builtin_shuffle(first, second, places);
#endif
}

// to[p * to_row + j] = from[j * from_column + p] for a square of as many elements a side as a vector has lanes: halves change places, then
// quarters, and so on.
template <class Vector, class Integers>
TOROID_INLINE void turn(const float* from, int64_t from_column, float* to, int64_t to_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  Vector rows[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(&rows[i], from + i * from_column, sizeof rows[i]);
#pragma GCC unroll 4
  for (int d = kLanes / 2; d > 0; d /= 2) {
    Integers upper, lower;
#pragma GCC unroll 16
    for (int l = 0; l < kLanes; ++l) {
      upper[l] = (l & d) != 0 ? kLanes + l - d : l;
      lower[l] = (l & d) != 0 ? kLanes + l : l + d;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if ((i & d) != 0) continue;
      const Vector first = rows[i], second = rows[i + d];
      pick(first, second, upper, rows[i]);
      pick(first, second, lower, rows[i + d]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(to + i * to_row, &rows[i], sizeof rows[i]);
}

}  // namespace toroid
