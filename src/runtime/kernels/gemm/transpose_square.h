// Transposes of small squares in registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

// The places Place::at(0), Place::at(1), …, one a lane: a constant, or compilers would make each vector of places lane by lane.
template <class Places, class Place, class Lanes>
struct PlacesOf;
template <class Places, class Place, int... kLane>
struct PlacesOf<Places, Place, std::integer_sequence<int, kLane...>> {
  static constexpr Places kAll = {static_cast<std::decay_t<decltype(Places{}[0])>>(Place::at(kLane))...};
};

// The elements at Place::at(lane) of both vectors, those of `second` behind those of `first`.
template <class Places, class Place, class Vector>
TOROID_INLINE void pick(const Vector& first, const Vector& second, Vector& result) {
  constexpr int kLanes = sizeof(Vector) / sizeof(first[0]);
#ifdef __clang__  // which has no such operation with vectors of places
  for (int l = 0; l < kLanes; ++l) result[l] = Place::at(l) < kLanes ? first[Place::at(l)] : second[Place::at(l) - kLanes];
#else
  result = __builtin_shuffle(first, second, PlacesOf<Places, Place, std::make_integer_sequence<int, kLanes>>::kAll);
#endif
}

template <int kDistance, int kLanes>
struct PlaceAbove {
  static constexpr int at(int l) { return (l & kDistance) != 0 ? kLanes + l - kDistance : l; }
};
template <int kDistance, int kLanes>
struct PlaceBeside {
  static constexpr int at(int l) { return (l & kDistance) != 0 ? kLanes + l : l + kDistance; }
};

// Of squares of kDistance columns, those above and beside the diagonal change places; then of those of half the size, and so on.
template <int kDistance, class Places, class Vector, int kLanes>
TOROID_INLINE void exchange_squares(Vector (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kDistance) != 0) continue;
    const Vector first = rows[i], second = rows[i + kDistance];
    pick<Places, PlaceAbove<kDistance, kLanes>>(first, second, rows[i]);
    pick<Places, PlaceBeside<kDistance, kLanes>>(first, second, rows[i + kDistance]);
  }
  if constexpr (kDistance > 1) exchange_squares<kDistance / 2, Places>(rows);
}

// to[p * to_row + j] = from[j * from_column + p] for a square of as many elements a side as a vector has lanes.
template <class Vector, class Integers>
TOROID_INLINE void turn(const float* from, int64_t from_column, float* to, int64_t to_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  Vector rows[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(&rows[i], from + i * from_column, sizeof rows[i]);
  exchange_squares<kLanes / 2, Integers>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(to + i * to_row, &rows[i], sizeof rows[i]);
}

}  // namespace toroid
