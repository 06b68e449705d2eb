// Inner loops written once over a vector type and compiled for several instruction sets, of which one is chosen when the program runs.
// Explicitly, not by target_clones, whose choice is made before the sanitizers' own code can run.
#pragma once

#include <cstdint>

namespace toroid {

#define TOROID_INLINE inline __attribute__((always_inline))
#ifdef __x86_64__
#define TOROID_AVX2 __attribute__((target("arch=x86-64-v3")))
#define TOROID_AVX512 __attribute__((target("arch=x86-64-v4")))
#endif

typedef float Vector16 __attribute__((vector_size(64)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector4 __attribute__((vector_size(16)));
// Integers of the same width, for places in such a vector and for its bits.
typedef uint32_t Integers16 __attribute__((vector_size(64)));
typedef uint32_t Integers8 __attribute__((vector_size(32)));
typedef uint32_t Integers4 __attribute__((vector_size(16)));

enum class VectorSet { Baseline, Avx2, Avx512 };

inline VectorSet vector_set() {
#ifdef __x86_64__
  // By their parts: clang 14 does not know the levels' names here.
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  static const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  return avx512 ? VectorSet::Avx512 : avx2 ? VectorSet::Avx2 : VectorSet::Baseline;
#else
  return VectorSet::Baseline;
#endif
}

}  // namespace toroid
