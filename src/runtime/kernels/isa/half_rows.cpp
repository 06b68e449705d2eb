#include "runtime/kernels/isa/half_rows.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>

#include "base/error.h"
#include "base/float16.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

float widened(DType dtype, uint16_t bits) {
  return dtype == DType::BF16 ? static_cast<float>(BFloat16::from_bits(bits)) : static_cast<float>(Float16::from_bits(bits));
}
uint16_t rounded(DType dtype, float value) { return dtype == DType::BF16 ? BFloat16(value).bits : Float16(value).bits; }

#ifdef __x86_64__
typedef uint16_t Bits __attribute__((vector_size(32)));

// Both give the number of elements that they did: whole vectors.
TOROID_AVX512 int64_t widen_vectors(DType dtype, const uint16_t* from, int64_t count, float* to) {
  int64_t j = 0;
  for (; j + 16 <= count; j += 16) {
    Bits bits;
    std::memcpy(&bits, from + j, sizeof bits);
    const Integers16 shifted = __builtin_convertvector(bits, Integers16) << 16;
    const __m512 wide = dtype == DType::BF16 ? (__m512)shifted : _mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
    std::memcpy(to + j, &wide, sizeof wide);
  }
  return j;
}

TOROID_AVX512 int64_t round_vectors(DType dtype, const float* from, int64_t count, uint16_t* to) {
  int64_t j = 0;
  for (; j + 16 <= count; j += 16) {
    Vector16 wide;
    std::memcpy(&wide, from + j, sizeof wide);
    Bits bits;
    if (dtype == DType::BF16) {
      const auto x = (Integers16)wide;
      const Integers16 nearest = x + 0x7fffu + (x >> 16 & 1u), quiet = x | 0x400000u;
      bits = __builtin_convertvector((wide == wide ? nearest : quiet) >> 16, Bits);
    } else {
      bits = (Bits)_mm512_maskz_cvtps_ph(0xffff, (__m512)wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    std::memcpy(to + j, &bits, sizeof bits);
  }
  return j;
}
#endif

}  // namespace

void widen_row(DType dtype, const uint16_t* from, int64_t count, float* to) {
  TOROID_CHECK(is_reduced_float(dtype));
  int64_t j = 0;
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) j = widen_vectors(dtype, from, count, to);
#endif
  for (; j < count; ++j) to[j] = widened(dtype, from[j]);
}

void widen_elements(DType dtype, const uint16_t* from, int64_t stride, int64_t count, float* to) {
  if (stride == 1) return widen_row(dtype, from, count, to);
  for (int64_t i = 0; i < count; ++i) widen_row(dtype, from + i * stride, 1, to + i);
}

void round_row(DType dtype, const float* from, int64_t count, uint16_t* to) {
  TOROID_CHECK(is_reduced_float(dtype));
  int64_t j = 0;
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) j = round_vectors(dtype, from, count, to);
#endif
  for (; j < count; ++j) to[j] = rounded(dtype, from[j]);
}

}  // namespace toroid
