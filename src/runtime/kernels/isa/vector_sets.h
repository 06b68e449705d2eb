// Inner loops written once over a vector type and compiled for several instruction sets, of which one is chosen when the program runs.
// Explicitly, not by target_clones, whose choice is made before the sanitizers' own code can run.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/machine/machine.h"

namespace toroid {

#define TOROID_INLINE inline __attribute__((always_inline))
#define TOROID_BASELINE  // what functions for all machines have in the place of the two below
#ifdef __x86_64__
// The levels x86-64-v3 and x86-64-v4, by their names or, for compilers that do not know these, by what is in them.
#if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11
#define TOROID_LEVEL3 "arch=x86-64-v3"
#define TOROID_LEVEL4 "arch=x86-64-v4"
#else
#define TOROID_LEVEL3 "cx16,sahf,popcnt,sse3,sse4.1,sse4.2,ssse3,avx,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,xsave"
#define TOROID_LEVEL4 TOROID_LEVEL3 ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
#endif
#define TOROID_AVX2 __attribute__((target(TOROID_LEVEL3)))
#define TOROID_AVX512 __attribute__((target(TOROID_LEVEL4)))
#define TOROID_AVX512_AND(EXTRAS) __attribute__((target(TOROID_LEVEL4 "," EXTRAS)))
#define TOROID_VNNI TOROID_AVX512_AND("avx512vnni")
#define TOROID_AVX512_BF16 TOROID_AVX512_AND("avx512bf16")
#endif

// Whether inner loops name instructions for vectors of their own type. clang takes such a name in functions for the instruction set alone,
// and these become parts of such functions only when they are inlined.
#if defined(__x86_64__) && !defined(__clang__)
#define TOROID_NAMES_INSTRUCTIONS 1
#endif

typedef float Vector16 __attribute__((vector_size(64)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector4 __attribute__((vector_size(16)));
// Integers of the same width, for places in such a vector and for its bits.
typedef uint32_t Integers16 __attribute__((vector_size(64)));
typedef uint32_t Integers8 __attribute__((vector_size(32)));
typedef uint32_t Integers4 __attribute__((vector_size(16)));
// A vector of any elements.
template <class Element, int kBytes>
struct VectorOfBytes {
  typedef Element Type __attribute__((vector_size(kBytes)));
};

// TOROID_SHUFFLE(a, b, place...): the lanes at these constant places, those of b behind those of a.
#if defined(__clang__) || __GNUC__ >= 12
#define TOROID_SHUFFLE __builtin_shufflevector
#else
template <class Vector, class... Place>
TOROID_INLINE auto shuffled(const Vector& a, const Vector& b, Place... place) {
  using Element = std::decay_t<decltype(a[0])>;
  constexpr int kLanes = sizeof(Vector) / sizeof(Element);
  const int places[] = {static_cast<int>(place)...};
  typename VectorOfBytes<Element, static_cast<int>(sizeof...(Place) * sizeof(Element))>::Type result;
#pragma GCC unroll 64
  for (int l = 0; l < static_cast<int>(sizeof...(Place)); ++l) result[l] = places[l] < kLanes ? a[places[l]] : b[places[l] - kLanes];
  return result;
}
#define TOROID_SHUFFLE ::toroid::shuffled
#endif

using VectorSet = IsaLevel;
// The one to choose: the machine's, or less where the machine is said to have less (base/machine/machine.h).
inline VectorSet vector_set() { return machine().isa.level; }

}  // namespace toroid
