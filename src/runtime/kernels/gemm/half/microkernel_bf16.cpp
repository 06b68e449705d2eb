#include "runtime/kernels/gemm/half/microkernel_bf16.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>
#include <utility>

#include "base/language.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

#ifdef TOROID_KNOWS_BF16
namespace {

template <int kRows, int kVectors>
TOROID_AVX512_BF16 void multiply_pairs(int64_t pairs, const uint16_t* const* rows, const uint16_t* b, float* c, int64_t c_row, bool add) {
  constexpr int kLanes = 16;
  __m512 sums[kRows][kVectors];
  const uint16_t* a[kRows];
  // Unrolled whole, or the sums would live in memory.
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    a[i] = rows[i];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[i][v] = add ? _mm512_loadu_ps(c + i * c_row + v * kLanes) : _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < pairs; ++p) {
    __m512bh columns[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) columns[v] = (__m512bh)_mm512_loadu_si512(b + v * 2 * kLanes);
    b += kVectors * 2 * kLanes;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      int32_t pair;
      std::memcpy(&pair, a[i] + 2 * p, sizeof pair);
      const auto x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_dpbf16_ps(sums[i][v], x, columns[v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + i * c_row + v * kLanes, sums[i][v]);
  }
}

// Two rows of 32 columns become pairs within each quarter of a vector: sums have columns 0 to 3, 8 to 11, … or 4 to 7, 12 to 15, …, and
// change places at the end.
template <int kRows, int kParts>
TOROID_AVX512_BF16 void multiply_in_rows(int64_t pairs, const uint16_t* const* rows, const uint16_t* b, int64_t b_row, float* c,
                                         int64_t c_row) {
  constexpr int kLanes = 16;
  __m512 sums[kRows][kParts][2];
  const uint16_t* a[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    a[i] = rows[i];
#pragma GCC unroll 16
    for (int v = 0; v < kParts; ++v) sums[i][v][0] = sums[i][v][1] = _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < pairs; ++p, b += 2 * b_row) {
    __m512bh columns[kParts][2];
#pragma GCC unroll 16
    for (int v = 0; v < kParts; ++v) {
      const __m512i first = _mm512_loadu_si512(b + v * kColumnsInRows), second = _mm512_loadu_si512(b + b_row + v * kColumnsInRows);
      columns[v][0] = (__m512bh)_mm512_unpacklo_epi16(first, second);
      columns[v][1] = (__m512bh)_mm512_unpackhi_epi16(first, second);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      int32_t pair;
      std::memcpy(&pair, a[i] + 2 * p, sizeof pair);
      const auto x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 16
      for (int v = 0; v < kParts; ++v) {
        sums[i][v][0] = _mm512_dpbf16_ps(sums[i][v][0], x, columns[v][0]);
        sums[i][v][1] = _mm512_dpbf16_ps(sums[i][v][1], x, columns[v][1]);
      }
    }
  }
  const __m512i lower = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i upper = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kParts; ++v) {
      float* const to = c + i * c_row + v * kColumnsInRows;
      _mm512_storeu_ps(to, _mm512_permutex2var_ps(sums[i][v][0], lower, sums[i][v][1]));
      _mm512_storeu_ps(to + kLanes, _mm512_permutex2var_ps(sums[i][v][0], upper, sums[i][v][1]));
    }
  }
}

template <size_t R, size_t... V>
constexpr void fill_row(MultiplyPairsInRows (&row)[GemmMicrokernels::kMostVectors / 2], std::index_sequence<V...>) {
  ((row[V] = &multiply_in_rows<static_cast<int>(R) + 1, static_cast<int>(V) + 1>), ...);
}
template <size_t R, size_t... V>
constexpr void fill_row(MultiplyPairs (&row)[GemmMicrokernels::kMostVectors], std::index_sequence<V...>) {
  ((row[V] = &multiply_pairs<static_cast<int>(R) + 1, static_cast<int>(V) + 1>), ...);
}

struct Table {
  template <size_t... R>
  constexpr explicit Table(std::index_sequence<R...>) {
    (fill_row<R>(kernels[R], std::make_index_sequence<GemmMicrokernels::kMostVectors>()), ...);
    (fill_row<R>(in_rows[R], std::make_index_sequence<GemmMicrokernels::kMostVectors / 2>()), ...);
  }
  Bf16DotMicrokernels kernels{};
  Bf16RowMicrokernels in_rows{};
};

const Table* table_of_this_machine() {
  static constexpr Table table{std::make_index_sequence<GemmMicrokernels::kMostRows>()};
  return machine().isa.bf16 ? &table : nullptr;
}

}  // namespace

const Bf16DotMicrokernels* bf16_dot_microkernels() {
  const Table* const table = table_of_this_machine();
  return table == nullptr ? nullptr : &table->kernels;
}
const Bf16RowMicrokernels* bf16_row_microkernels() {
  const Table* const table = table_of_this_machine();
  return table == nullptr ? nullptr : &table->in_rows;
}
#else
const Bf16DotMicrokernels* bf16_dot_microkernels() { return nullptr; }
const Bf16RowMicrokernels* bf16_row_microkernels() { return nullptr; }
#endif

}  // namespace toroid
