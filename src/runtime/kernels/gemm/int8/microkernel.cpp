#include "runtime/kernels/gemm/int8/microkernel.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>
#include <utility>

namespace toroid {

#ifdef __x86_64__
namespace {

// Where a tap of the rows begins.
template <int kRows>
TOROID_INLINE void point_to(const ByteRows& left, int64_t tap, const std::byte* (&rows)[kRows]) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) rows[i] = reinterpret_cast<const std::byte*>(left.pointers[tap * ByteRows::kStrip + i]) + left.offset;
}
TOROID_INLINE int word_of(const std::byte* row, int64_t word) {
  int x;
  std::memcpy(&x, row + word * static_cast<int64_t>(sizeof(x)), sizeof(x));
  return x;
}

// Unrolled whole, or the sums would live in memory.
template <int kRows, int kTiles>
TOROID_VNNI void multiply_fours(const ByteRows& left, const uint32_t* b, int64_t tile_words, int32_t* c, int64_t c_row) {
  __m512i sums[kRows][kTiles];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t) sums[i][t] = _mm512_setzero_si512();
  }
  for (int64_t tap = 0; tap < left.taps; ++tap) {
    const std::byte* rows[kRows];
    point_to(left, tap, rows);
    for (int64_t word = 0; word < left.words; ++word, b += ByteKernels::kColumns) {
      __m512i columns[kTiles];
#pragma GCC unroll 16
      for (int t = 0; t < kTiles; ++t) columns[t] = _mm512_loadu_si512(b + t * tile_words);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const __m512i x = _mm512_set1_epi32(word_of(rows[i], word));
#pragma GCC unroll 16
        for (int t = 0; t < kTiles; ++t) sums[i][t] = _mm512_dpbusd_epi32(sums[i][t], x, columns[t]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t) _mm512_storeu_si512(c + i * c_row + t * ByteKernels::kColumns, sums[i][t]);
  }
}

template <int kRows>
TOROID_AVX2 void multiply_pairs(const ByteRows& left, const uint32_t* b, int64_t, int32_t* c, int64_t c_row) {
  constexpr int kLanes = 8;
  __m256i sums[kRows][2];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
  for (int64_t tap = 0; tap < left.taps; ++tap) {
    const std::byte* rows[kRows];
    point_to(left, tap, rows);
    for (int64_t word = 0; word < left.words; ++word, b += ByteKernels::kColumns) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)),
                    high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + kLanes));
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const __m256i x = _mm256_set1_epi32(word_of(rows[i], word));
        sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(x, low));
        sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(x, high));
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    std::memcpy(c + i * c_row, &sums[i][0], sizeof(__m256i));
    std::memcpy(c + i * c_row + kLanes, &sums[i][1], sizeof(__m256i));
  }
}

template <size_t R, size_t... T>
constexpr void fill_row(ByteKernels& kernels, std::index_sequence<T...>) {
  ((kernels.multiply[R][T] = &multiply_fours<static_cast<int>(R) + 1, static_cast<int>(T) + 1>), ...);
}
template <size_t... R>
constexpr ByteKernels kernels_of_fours(std::index_sequence<R...>) {
  ByteKernels kernels = {4, ByteKernels::kMostTiles, {}};
  (fill_row<R>(kernels, std::make_index_sequence<ByteKernels::kMostTiles>()), ...);
  return kernels;
}
template <size_t... R>
constexpr ByteKernels kernels_of_pairs(std::index_sequence<R...>) {
  ByteKernels kernels = {2, 1, {}};
  ((kernels.multiply[R][0] = &multiply_pairs<static_cast<int>(R) + 1>), ...);
  return kernels;
}

}  // namespace

const ByteKernels* vnni_kernels() {
  static constexpr ByteKernels kernels = kernels_of_fours(std::make_index_sequence<ByteKernels::kMostRows>());
  return machine().isa.vnni ? &kernels : nullptr;
}
const ByteKernels* byte_pair_kernels() {
  static constexpr ByteKernels kernels = kernels_of_pairs(std::make_index_sequence<ByteKernels::kMostRows>());
  return vector_set() >= VectorSet::Avx2 ? &kernels : nullptr;
}
#else
const ByteKernels* vnni_kernels() { return nullptr; }
const ByteKernels* byte_pair_kernels() { return nullptr; }
#endif

}  // namespace toroid
