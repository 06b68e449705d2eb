// A vector of bytes becomes one of floats in two instructions, to int32 and to float32. For six rows of sums they hide behind the
// multiplications; for one row, whose time is that of reading the matrix, they cost less than reading four times as many bytes.
#include "runtime/kernels/gemm/int8/weight_panels.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/float16.h"
#include "base/language.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

// Each set says how a vector of bytes is widened, with intrinsics: compilers take bytes to floats one at a time.
namespace baseline {
typedef Vector4 Vector;
constexpr int kMostVectors = 2;
TOROID_INLINE void widen_vector(const int8_t* from, Vector& to) {
  for (int j = 0; j < 4; ++j) to[j] = from[j];
}
#define TOROID_TARGET
#include "runtime/kernels/gemm/int8/weight_panel_loops.inc"
#undef TOROID_TARGET
}  // namespace baseline

#ifdef __x86_64__
namespace avx2 {
typedef Vector8 Vector;
constexpr int kMostVectors = 2;
TOROID_AVX2 TOROID_INLINE void widen_vector(const int8_t* from, Vector& to) {
  to = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#define TOROID_TARGET TOROID_AVX2
#include "runtime/kernels/gemm/int8/weight_panel_loops.inc"
#undef TOROID_TARGET
}  // namespace avx2

namespace avx512 {
typedef Vector16 Vector;
constexpr int kMostVectors = 4;
TOROID_AVX512 TOROID_INLINE void widen_vector(const int8_t* from, Vector& to) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  to = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes));
}
#define TOROID_TARGET TOROID_AVX512
#include "runtime/kernels/gemm/int8/weight_panel_loops.inc"
#undef TOROID_TARGET
}  // namespace avx512
#endif

#ifdef TOROID_KNOWS_BF16
// A float32 that is a whole number of eight bits has its bfloat16 in its upper half, and 0 below: two of them make a pair.
TOROID_AVX512_BF16 TOROID_INLINE __m512i pair_at(const int8_t* from) {
  Vector16 first, second;
  avx512::widen_vector(from, first);
  avx512::widen_vector(from + 16, second);
  return (__m512i)((Integers16)second | (Integers16)first >> 16u);
}

template <int kRows, int kVectors>
TOROID_AVX512_BF16 void multiply_byte_pairs(int64_t pairs, const uint16_t* const* rows, const int8_t* b, float* out, int64_t out_row,
                                            bool add, uint16_t* wide) {
  constexpr int kPairBytes = 32;
  constexpr int64_t kLine = 64, kFetchAhead = 2048;
  __m512 sums[kRows][kVectors];
  const uint16_t* a[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    a[i] = rows[i];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[i][v] = add ? _mm512_loadu_ps(out + i * out_row + v * 16) : _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < pairs; ++p, b += kVectors * kPairBytes) {
#pragma GCC unroll 4
    for (int64_t at = 0; at < kVectors * kPairBytes; at += kLine) __builtin_prefetch(b + at + kFetchAhead, 0, 3);
    __m512i columns[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) columns[v] = pair_at(b + v * kPairBytes);
    if (wide != nullptr) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(wide + (p * kVectors + v) * kPairBytes, columns[v]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      int32_t pair;
      std::memcpy(&pair, a[i] + 2 * p, sizeof pair);
      const auto x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_dpbf16_ps(sums[i][v], x, (__m512bh)columns[v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + i * out_row + v * 16, sums[i][v]);
  }
}

struct PairKernels {
  template <size_t... I>
  constexpr explicit PairKernels(std::index_sequence<I...>) : table{} {
    constexpr int kMost = GemmMicrokernels::kMostVectors;
    ((table[I / kMost][I % kMost] = &multiply_byte_pairs<I / kMost + 1, I % kMost + 1>), ...);
  }
  NarrowPairKernels table;
};
constexpr PairKernels kPairKernels{std::make_index_sequence<GemmMicrokernels::kMostRows * GemmMicrokernels::kMostVectors>()};
#endif

}  // namespace

const NarrowKernels& narrow_kernels() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return avx512::kKernels.table;
  if (vector_set() == VectorSet::Avx2) return avx2::kKernels.table;
#endif
  return baseline::kKernels.table;
}

WidenBytes widen_to_float32() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return avx512::widen;
  if (vector_set() == VectorSet::Avx2) return avx2::widen;
#endif
  return baseline::widen;
}

const NarrowPairKernels* narrow_pair_kernels() {
#ifdef TOROID_KNOWS_BF16
  if (bf16_dot_microkernels() != nullptr) return &kPairKernels.table;
#endif
  return nullptr;
}

namespace {

#ifdef TOROID_KNOWS_BF16
TOROID_AVX512_BF16 void widen_vectors_to_bfloat16(const int8_t* from, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; i += 32) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)),
                  high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + 16));
    const __m512 first = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, low));
    const __m512 second = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, high));
    const __m512bh both = _mm512_cvtne2ps_pbh(second, first);
    std::memcpy(to + i, &both, sizeof both);
  }
}
#endif

}  // namespace

void widen_to_bfloat16(const int8_t* from, int64_t count, uint16_t* to) {
#ifdef TOROID_KNOWS_BF16
  if (machine().isa.bf16) return widen_vectors_to_bfloat16(from, count, to);
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = BFloat16(static_cast<float>(from[i])).bits;  // where tiles are emulated
}

}  // namespace toroid
