// Inner loops written once over a vector type and compiled for several instruction sets, of which one is chosen when the program runs.
// Explicitly, not by target_clones, whose choice is made before the sanitizers' own code can run.
#pragma once

#include <cstdint>

#include "base/machine/machine.h"

namespace toroid {

#define TOROID_INLINE inline __attribute__((always_inline))
#ifdef __x86_64__
#define TOROID_AVX2 __attribute__((target("arch=x86-64-v3")))
#define TOROID_AVX512 __attribute__((target("arch=x86-64-v4")))
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

using VectorSet = IsaLevel;
// The one to choose: the machine's, or less where the machine is said to have less (base/machine/machine.h).
inline VectorSet vector_set() { return machine().isa.level; }

}  // namespace toroid
