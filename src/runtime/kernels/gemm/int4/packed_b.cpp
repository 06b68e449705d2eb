#include "runtime/kernels/gemm/int4/packed_b.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "base/language.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

// Results are no return values, whose place depends on the instruction set.
template <class Element, class Vector>
TOROID_INLINE void load(const Element* from, Vector& result) {
  std::memcpy(&result, from, sizeof result);
}

template <class Integers, class Vector>
TOROID_INLINE void number_of(const Integers& words, int i, Vector& result) {
  using Signed = typename VectorOfBytes<int32_t, sizeof(Integers)>::Type;
  result = __builtin_convertvector((Signed)(words >> static_cast<uint32_t>(4 * i) & 15u), Vector);
}

namespace baseline {
using Vector = Vector4;
using Integers = Integers4;
constexpr int kLanes = 4, kRowsAtOnce = 1;
#define TOROID_TARGET
#include "runtime/kernels/gemm/int4/microkernel_loops.inc"
#undef TOROID_TARGET
}  // namespace baseline

#ifdef __x86_64__
namespace avx2 {
using Vector = Vector8;
using Integers = Integers8;
constexpr int kLanes = 8, kRowsAtOnce = Int4Loops::kMostRows;
#define TOROID_TARGET TOROID_AVX2
#include "runtime/kernels/gemm/int4/microkernel_loops.inc"
#undef TOROID_TARGET
}  // namespace avx2

namespace avx512 {
using Vector = Vector16;
using Integers = Integers16;
constexpr int kLanes = 16, kRowsAtOnce = Int4Loops::kMostRows;
// The numbers are places of a table, of which an instruction looks up 16 and takes no notice of higher bits.
TOROID_AVX512 TOROID_INLINE void number_of(const Integers16& words, int i, Vector16& result) {
  const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  result = (Vector16)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)(words >> static_cast<uint32_t>(4 * i)), table);
}
#define TOROID_TARGET TOROID_AVX512
#include "runtime/kernels/gemm/int4/microkernel_loops.inc"
#undef TOROID_TARGET
}  // namespace avx512
#endif

}  // namespace

const Int4Loops& int4_loops([[maybe_unused]] VectorSet set) {
#ifdef __x86_64__
  if (set == VectorSet::Avx512) return avx512::kLoops;
  if (set == VectorSet::Avx2) return avx2::kLoops;
#endif
  return baseline::kLoops;
}

namespace {

// The number of a row in a column of a tile.
int int4_at(const Int4Matrix& b, int64_t tile, int64_t row, int64_t column) {
  const uint32_t word = b.words(tile)[row / Int4Matrix::kWordNumbers * kTileSide + column];
  return static_cast<int>(word >> static_cast<uint32_t>(row % Int4Matrix::kWordNumbers * 4) & 15u);
}
// Steps of tiles: words of two rows' numbers for each column.
template <class Number>
void write_int4_tiles(Range steps, const Number& number, std::byte* to) {
  for (int64_t k = steps.first * kStepElements; k < steps.last * kStepElements; k += 2) {
    for (int64_t column = 0; column < kTileSide; ++column) {
      for (int64_t row = k; row < k + 2; ++row, to += sizeof(BFloat16)) {
        const BFloat16 rounded(number(row, column));
        std::memcpy(to, &rounded, sizeof rounded);
      }
    }
  }
}
void widen_tiles_plainly(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
  const auto number = [&](int64_t row, int64_t column) {
    const int64_t group = b.group_of(row);
    return static_cast<float>(int4_at(b, tile, row, column)) * b.scales(tile, group)[column] + b.zeros(tile, group)[column];
  };
  write_int4_tiles(steps, number, to);
}
void widen_numbers_plainly(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
  write_int4_tiles(
      steps, [&](int64_t row, int64_t column) { return static_cast<float>(int4_at(b, tile, row, column)); }, to);
}

#ifdef TOROID_KNOWS_BF16
TOROID_AVX512_BF16 void widen_tiles_avx512(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
  const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  alignas(64) uint16_t order[32];
  for (uint16_t c = 0; c < 16; ++c) {
    order[2 * c] = c;
    order[2 * c + 1] = static_cast<uint16_t>(c + 16);
  }
  const __m512i by_pairs = _mm512_load_si512(order);
  for (int64_t k = steps.first * kStepElements; k < steps.last * kStepElements; k += Int4Matrix::kWordNumbers) {
    const int64_t group = b.group_of(k);
    const __m512 scale = _mm512_loadu_ps(b.scales(tile, group)), zero = _mm512_loadu_ps(b.zeros(tile, group));
    Integers16 words;
    load(b.words(tile) + k / Int4Matrix::kWordNumbers * kTileSide, words);
#pragma GCC unroll 4
    for (unsigned pair = 0; pair < 4; ++pair, to += kTileRowBytes) {
      const __m512 first = _mm512_maskz_permutexvar_ps(0xffff, (__m512i)(words >> 8 * pair), table);
      const __m512 second = _mm512_maskz_permutexvar_ps(0xffff, (__m512i)(words >> (8 * pair + 4)), table);
      const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_fmadd_ps(second, scale, zero), _mm512_fmadd_ps(first, scale, zero));
      const __m512i row = _mm512_maskz_permutexvar_epi16(0xffffffffu, by_pairs, (__m512i)both);
      std::memcpy(to, &row, sizeof row);
    }
  }
}
#endif

#ifdef __x86_64__
TOROID_AVX512 void widen_numbers_avx512(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
  // Of bfloat16, twice, since an instruction looks at five bits of each place.
  alignas(64) static constexpr uint16_t kNumbers[32] = {
      0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170,
      0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170};
  const __m512i table = _mm512_load_si512(kNumbers);
  constexpr int64_t kStepWords = kStepElements / Int4Matrix::kWordNumbers;
  for (int64_t i = steps.first * kStepWords; i < steps.last * kStepWords; ++i) {
    Integers16 words;
    load(b.words(tile) + i * kTileSide, words);
#pragma GCC unroll 4
    for (unsigned pair = 0; pair < 4; ++pair, to += kTileRowBytes) {
      const Integers16 byte = words >> 8 * pair, places = (byte & 0xfu) | ((byte << 12) & 0xf0000u);
      const __m512i row = _mm512_maskz_permutexvar_epi16(0xffffffffu, (__m512i)places, table);
      std::memcpy(to, &row, sizeof row);
    }
  }
}
#endif

}  // namespace

void widen_int4_tiles(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
#ifdef TOROID_KNOWS_BF16
  if (machine().isa.bf16) return widen_tiles_avx512(b, tile, steps, to);
#endif
  widen_tiles_plainly(b, tile, steps, to);
}

void widen_int4_numbers(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return widen_numbers_avx512(b, tile, steps, to);
#endif
  widen_numbers_plainly(b, tile, steps, to);
}

}  // namespace toroid
