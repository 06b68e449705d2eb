#include "runtime/kernels/gemm/half/microkernel_bf16.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>
#include <utility>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

#ifdef __x86_64__
namespace {

#define TOROID_AVX512_BF16 __attribute__((target("arch=x86-64-v4,avx512bf16")))

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

template <size_t R, size_t... V>
constexpr void fill_row(MultiplyPairs (&row)[GemmMicrokernels::kMostVectors], std::index_sequence<V...>) {
  ((row[V] = &multiply_pairs<static_cast<int>(R) + 1, static_cast<int>(V) + 1>), ...);
}

struct Table {
  template <size_t... R>
  constexpr explicit Table(std::index_sequence<R...>) {
    (fill_row<R>(kernels[R], std::make_index_sequence<GemmMicrokernels::kMostVectors>()), ...);
  }
  Bf16DotMicrokernels kernels{};
};

}  // namespace
#endif

const Bf16DotMicrokernels* bf16_dot_microkernels() {
#ifdef __x86_64__
  static constexpr Table table{std::make_index_sequence<GemmMicrokernels::kMostRows>()};
  if (machine().isa.bf16) return &table.kernels;
#endif
  return nullptr;
}

}  // namespace toroid
