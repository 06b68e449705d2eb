#include "runtime/kernels/isa/half_rows.h"

#include <cstring>

#include "base/error.h"
#include "base/float16.h"
#include "base/language.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

float widened(DType dtype, uint16_t bits) {
  return dtype == DType::BF16 ? static_cast<float>(BFloat16::from_bits(bits)) : static_cast<float>(Float16::from_bits(bits));
}
uint16_t rounded(DType dtype, float value) { return dtype == DType::BF16 ? BFloat16(value).bits : Float16(value).bits; }

// Float16 by the processor's own instructions, for as many lanes as the vector has. To nearest, of two as near to the even one, whatever
// the caller's mode is.
#ifdef __clang__
template <class Bits, class Vector>
TOROID_INLINE void widen_float16(const Bits& bits, Vector& wide) {
  wide = __builtin_convertvector((typename VectorOfBytes<__fp16, sizeof(Bits)>::Type)bits, Vector);
}
template <class Vector, class Bits>
TOROID_INLINE void round_float16(const Vector& wide, Bits& bits) {
  bits = (Bits) __builtin_convertvector(wide, typename VectorOfBytes<__fp16, sizeof(Bits)>::Type);
}
template <class Words, class Integers>
TOROID_INLINE void widen_words(const Words& bits, Integers& wide) {
  wide = __builtin_convertvector(bits, Integers);
}
#elif defined(__x86_64__)
TOROID_INLINE void widen_float16(const VectorOfBytes<uint16_t, 32>::Type& bits, Vector16& wide) {
  asm("vcvtph2ps %1, %0" : "=v"(wide) : "v"(bits));
}
TOROID_INLINE void widen_float16(const VectorOfBytes<uint16_t, 16>::Type& bits, Vector8& wide) {
  asm("vcvtph2ps %1, %0" : "=x"(wide) : "x"(bits));
}
TOROID_INLINE void round_float16(const Vector8& wide, VectorOfBytes<uint16_t, 16>::Type& bits) {
  asm("vcvtps2ph $0, %1, %0" : "=x"(bits) : "x"(wide));
}
// By one instruction, which GCC does not find: it widens the halves of a vector by themselves.
TOROID_INLINE void widen_words(const VectorOfBytes<uint16_t, 32>::Type& bits, Integers16& wide) {
  asm("vpmovzxwd %1, %0" : "=v"(wide) : "v"(bits));
}
TOROID_INLINE void widen_words(const VectorOfBytes<uint16_t, 16>::Type& bits, Integers8& wide) {
  asm("vpmovzxwd %1, %0" : "=x"(wide) : "x"(bits));
}
#endif

#ifdef __x86_64__
// Both give the number of elements that they did: whole vectors.
template <class Vector, class Integers>
TOROID_INLINE int64_t widen_vectors(DType dtype, const uint16_t* from, int64_t count, float* to) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    typename VectorOfBytes<uint16_t, 2 * kLanes>::Type bits;
    std::memcpy(&bits, from + j, sizeof bits);
    Vector wide;
    if (dtype == DType::BF16) {
      Integers words;
      widen_words(bits, words);
      wide = (Vector)(words << 16);
    } else {
      widen_float16(bits, wide);
    }
    std::memcpy(to + j, &wide, sizeof wide);
  }
  return j;
}

template <class Vector, class Integers>
TOROID_INLINE int64_t round_vectors(DType dtype, const float* from, int64_t count, uint16_t* to) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  using Bits = typename VectorOfBytes<uint16_t, 2 * kLanes>::Type;
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Vector wide;
    std::memcpy(&wide, from + j, sizeof wide);
    Bits bits;
    if (dtype == DType::BF16) {
      const auto x = (Integers)wide;
      const Integers nearest = x + 0x7fffu + (x >> 16 & 1u), quiet = x | 0x400000u;
      bits = __builtin_convertvector((wide == wide ? nearest : quiet) >> 16, Bits);
    } else {
      round_float16(wide, bits);
    }
    std::memcpy(to + j, &bits, sizeof bits);
  }
  return j;
}

TOROID_AVX2 int64_t widen_avx2(DType dtype, const uint16_t* from, int64_t count, float* to) {
  return widen_vectors<Vector8, Integers8>(dtype, from, count, to);
}
TOROID_AVX512 int64_t widen_avx512(DType dtype, const uint16_t* from, int64_t count, float* to) {
  return widen_vectors<Vector16, Integers16>(dtype, from, count, to);
}
#if defined(TOROID_NAMES_INSTRUCTIONS) && defined(TOROID_KNOWS_BF16)
// By the processor's own instruction, as many as a row has of 32. It takes numbers that are not normal as 0: where there are any, they are
// rounded as elsewhere.
TOROID_AVX512_BF16 int64_t round_by_instruction(const float* from, int64_t count, uint16_t* to) {
  constexpr int64_t kLanes = 16;
  int64_t j = 0;
  for (; j + 2 * kLanes <= count; j += 2 * kLanes) {
    Vector16 first, last;
    std::memcpy(&first, from + j, sizeof first);
    std::memcpy(&last, from + j + kLanes, sizeof last);
    bool any;
    asm("vfpclassps $0x20, %1, %%k1\n\tvfpclassps $0x20, %2, %%k2\n\tkortestw %%k1, %%k2"
        : "=@ccnz"(any)
        : "v"(first), "v"(last)
        : "k1", "k2");
    if (any) {
      for (int64_t l = j; l < j + 2 * kLanes; ++l) to[l] = rounded(DType::BF16, from[l]);
      continue;
    }
    VectorOfBytes<uint16_t, 64>::Type bits;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(bits) : "v"(first), "v"(last));
    std::memcpy(to + j, &bits, sizeof bits);
  }
  return j;
}
#endif
TOROID_AVX2 void round_rows_avx2(DType dtype, const float* from, int64_t from_row, int64_t rows, int64_t count, uint16_t* to,
                                 int64_t to_row) {
  [[maybe_unused]] const bool by_instruction = dtype == DType::BF16 && machine().isa.bf16;
  for (; rows > 0; --rows, from += from_row, to += to_row) {
    int64_t j = 0;
#if defined(TOROID_NAMES_INSTRUCTIONS) && defined(TOROID_KNOWS_BF16)
    if (by_instruction) j = round_by_instruction(from, count, to);
#endif
    for (j += round_vectors<Vector8, Integers8>(dtype, from + j, count - j, to + j); j < count; ++j) to[j] = rounded(dtype, from[j]);
  }
}
#endif

}  // namespace

void widen_row(DType dtype, const uint16_t* from, int64_t count, float* to) {
  TOROID_CHECK(is_reduced_float(dtype));
  int64_t j = 0;
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) j = widen_avx512(dtype, from, count, to);
  if (vector_set() == VectorSet::Avx2) j = widen_avx2(dtype, from, count, to);
#endif
  for (; j < count; ++j) to[j] = widened(dtype, from[j]);
}

void widen_elements(DType dtype, const uint16_t* from, int64_t stride, int64_t count, float* to) {
  if (stride == 1) return widen_row(dtype, from, count, to);
  for (int64_t i = 0; i < count; ++i) widen_row(dtype, from + i * stride, 1, to + i);
}

void round_row(DType dtype, const float* from, int64_t count, uint16_t* to) { round_rows(dtype, from, 0, 1, count, to, 0); }

void round_rows(DType dtype, const float* from, int64_t from_row, int64_t rows, int64_t count, uint16_t* to, int64_t to_row) {
  TOROID_CHECK(is_reduced_float(dtype));
#ifdef __x86_64__
  if (vector_set() != VectorSet::Baseline) return round_rows_avx2(dtype, from, from_row, rows, count, to, to_row);
#endif
  for (; rows > 0; --rows, from += from_row, to += to_row) {
    for (int64_t j = 0; j < count; ++j) to[j] = rounded(dtype, from[j]);
  }
}

}  // namespace toroid
