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
constexpr float kMostWholeZero = 16;
// The whole number that a zero point takes off; -1 where it is none from 0 to 16.
float whole_zero(const Int4Matrix& b, int64_t tile, int64_t group, int64_t column) {
  const float scale = b.scales(tile, group)[column], zero = b.zeros(tile, group)[column];
  if (scale == 0) return zero == 0 ? 0 : -1;
  const float ratio = 0.5f - zero / scale;
  if (!(ratio >= 0 && ratio < kMostWholeZero + 1)) return -1;
  const auto whole = static_cast<float>(static_cast<int>(ratio));
  return -whole * scale == zero ? whole : -1;
}
void widen_numbers_plainly(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
  const auto number = [&](int64_t row, int64_t column) {
    const float zero = b.has_whole_zeros ? whole_zero(b, tile, b.group_of(row), column) : 0;
    return static_cast<float>(int4_at(b, tile, row, column)) - zero;
  };
  write_int4_tiles(steps, number, to);
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
  const uint32_t* words = b.words(tile) + steps.first * kStepElements / Int4Matrix::kWordNumbers * kTileSide;
  for (int64_t k = steps.first * kStepElements; k < steps.last * kStepElements; k += Int4Matrix::kWordNumbers, words += kTileSide) {
    const float* const scales = b.scales(tile, b.group_of(k));
    const __m512 scale = _mm512_loadu_ps(scales), zero = _mm512_loadu_ps(scales + kTileSide);
    Integers16 numbers;
    load(words, numbers);
#pragma GCC unroll 4
    for (unsigned pair = 0; pair < 4; ++pair, to += kTileRowBytes) {
      const __m512 first = _mm512_maskz_permutexvar_ps(0xffff, (__m512i)(numbers >> 8 * pair), table);
      const __m512 second = _mm512_maskz_permutexvar_ps(0xffff, (__m512i)(numbers >> (8 * pair + 4)), table);
      const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_fmadd_ps(second, scale, zero), _mm512_fmadd_ps(first, scale, zero));
      const __m512i row = _mm512_maskz_permutexvar_epi16(0xffffffffu, by_pairs, (__m512i)both);
      std::memcpy(to, &row, sizeof row);
    }
  }
}
#endif

#ifdef __x86_64__
TOROID_AVX512 void widen_numbers_avx512(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
  // -16 to 15 as bfloat16; an instruction looks at five bits of each place.
  alignas(64) static constexpr uint16_t kNumbers[32] = {
      0xc180, 0xc170, 0xc160, 0xc150, 0xc140, 0xc130, 0xc120, 0xc110, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80,
      0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170};
  constexpr int64_t kStepLines = kStepElements / Int4Matrix::kWordNumbers;
  constexpr int kOfZero = 16;
  constexpr __mmask16 kAll = 0xffff;
  const __m512i table = _mm512_load_si512(kNumbers);
  const bool has_whole_zeros = b.has_whole_zeros;
  const uint32_t* words = b.words(tile) + steps.first * kStepLines * kTileSide;
  __m512i places_of_zero = _mm512_set1_epi16(kOfZero);
  for (int64_t step = steps.first; step < steps.last; ++step) {
    if (has_whole_zeros) {
      const float* const scales = b.scales(tile, b.group_of(step * kStepElements));
      const __m512 ratio = _mm512_loadu_ps(scales + kTileSide) / _mm512_loadu_ps(scales);  // where a scale is 0, any place will do
      const __m512i place = _mm512_maskz_add_epi32(kAll, _mm512_maskz_cvtps_epi32(kAll, ratio), _mm512_set1_epi32(kOfZero));
      places_of_zero = (__m512i)((Integers16)place | (Integers16)place << 16);
    }
#pragma GCC unroll 4
    for (int64_t line = 0; line < kStepLines; ++line, words += kTileSide) {
      Integers16 numbers;
      load(words, numbers);
#pragma GCC unroll 4
      for (unsigned pair = 0; pair < 4; ++pair, to += kTileRowBytes) {
        const Integers16 byte = numbers >> 8 * pair, places = (byte & 0xfu) | ((byte << 12) & 0xf0000u);
        const __m512i row = _mm512_maskz_permutexvar_epi16(0xffffffffu, _mm512_add_epi16((__m512i)places, places_of_zero), table);
        std::memcpy(to, &row, sizeof row);
      }
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

bool has_whole_zeros(const Int4Matrix& b, int64_t tile, int64_t columns) {
  for (int64_t group = 0; group < b.groups; ++group) {
    for (int64_t column = 0; column < columns; ++column) {
      if (whole_zero(b, tile, group, column) < 0) return false;
    }
  }
  return true;
}

void widen_int4_numbers(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return widen_numbers_avx512(b, tile, steps, to);
#endif
  widen_numbers_plainly(b, tile, steps, to);
}

}  // namespace toroid
