#include "runtime/kernels/conv/int8/depthwise_microkernel.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

#ifdef __x86_64__
namespace {

// 64 bytes, or 16 numbers of 32 bits.
struct Whole {
  using Vector = __m512i;
  static constexpr int kChannels = 64;
  static constexpr __mmask16 kAll = 0xffff;  // g++ warns of the intrinsic without a mask
  struct Mask {
    __mmask64 bits;
    __m512i order;
  };
  // Numbers of four channels in the order in which the words of four rows leave each 128 bits: vector v has channels 16 v to 16 v + 15.
  TOROID_VNNI static TOROID_INLINE Mask mask(int64_t count) {
    return {~uint64_t{0} >> (kChannels - count), _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)};
  }
  TOROID_VNNI static TOROID_INLINE Vector load(const Mask& mask, const uint8_t* from) {
    return _mm512_maskz_permutexvar_epi32(kAll, mask.order, _mm512_maskz_loadu_epi8(mask.bits, from));
  }
  TOROID_VNNI static TOROID_INLINE Vector zero() { return _mm512_setzero_si512(); }
  TOROID_VNNI static TOROID_INLINE Vector low_bytes(Vector a, Vector b) { return _mm512_unpacklo_epi8(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector high_bytes(Vector a, Vector b) { return _mm512_unpackhi_epi8(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector low_pairs(Vector a, Vector b) { return _mm512_unpacklo_epi16(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector high_pairs(Vector a, Vector b) { return _mm512_unpackhi_epi16(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector add_products(Vector sum, Vector bytes, const int32_t* words) {
    return _mm512_dpbusd_epi32(sum, bytes, _mm512_loadu_si512(words));
  }
  TOROID_VNNI static TOROID_INLINE void store(int32_t* to, Vector x) { _mm512_storeu_si512(to, x); }
};
struct Half {
  using Vector = __m256i;
  static constexpr int kChannels = 32;
  struct Mask {
    __mmask32 bits;
    __m256i order;
  };
  TOROID_VNNI static TOROID_INLINE Mask mask(int64_t count) {
    return {~uint32_t{0} >> (kChannels - count), _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)};
  }
  TOROID_VNNI static TOROID_INLINE Vector load(const Mask& mask, const uint8_t* from) {
    return _mm256_permutevar8x32_epi32(_mm256_maskz_loadu_epi8(mask.bits, from), mask.order);
  }
  TOROID_VNNI static TOROID_INLINE Vector zero() { return _mm256_setzero_si256(); }
  TOROID_VNNI static TOROID_INLINE Vector low_bytes(Vector a, Vector b) { return _mm256_unpacklo_epi8(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector high_bytes(Vector a, Vector b) { return _mm256_unpackhi_epi8(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector low_pairs(Vector a, Vector b) { return _mm256_unpacklo_epi16(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector high_pairs(Vector a, Vector b) { return _mm256_unpackhi_epi16(a, b); }
  TOROID_VNNI static TOROID_INLINE Vector add_products(Vector sum, Vector bytes, const int32_t* words) {
    return _mm256_dpbusd_epi32(sum, bytes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
  }
  TOROID_VNNI static TOROID_INLINE void store(int32_t* to, Vector x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
};

constexpr int kVectors = 4, kPositions = ByteColumns::kPositions;

template <class Lanes>
struct Words {
  typename Lanes::Vector v[kVectors];
};
// Of a column of rows a to d.
template <class Lanes>
TOROID_VNNI TOROID_INLINE Words<Lanes> words_of(typename Lanes::Vector a, typename Lanes::Vector b, typename Lanes::Vector c,
                                                typename Lanes::Vector d) {
  const auto low_ab = Lanes::low_bytes(a, b), high_ab = Lanes::high_bytes(a, b), low_cd = Lanes::low_bytes(c, d),
             high_cd = Lanes::high_bytes(c, d);
  return {{Lanes::low_pairs(low_ab, low_cd), Lanes::high_pairs(low_ab, low_cd), Lanes::low_pairs(high_ab, high_cd),
           Lanes::high_pairs(high_ab, high_cd)}};
}

template <class Lanes>
struct Totals {
  static constexpr int kLanes = Lanes::kChannels / kVectors;

  TOROID_VNNI TOROID_INLINE void clear() {
#pragma GCC unroll 16
    for (int i = 0; i < kPositions * kVectors; ++i) sums[i] = Lanes::zero();
  }
  TOROID_VNNI TOROID_INLINE void add(int position, const Words<Lanes>& words, const int32_t* filter) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      sums[position * kVectors + v] = Lanes::add_products(sums[position * kVectors + v], words.v[v], filter + v * kLanes);
  }
  TOROID_VNNI TOROID_INLINE void store(int64_t positions, int32_t* to, int64_t row) const {
#pragma GCC unroll 16
    for (int i = 0; i < kPositions; ++i) {
      if (i >= positions) break;
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) Lanes::store(to + i * row + v * kLanes, sums[i * kVectors + v]);
    }
  }

  typename Lanes::Vector sums[kPositions * kVectors];
};

template <class Lanes>
TOROID_VNNI void sum_any(const ByteColumns& image, int64_t first, int64_t positions, int64_t count, int32_t* sums, int64_t row) {
  const auto mask = Lanes::mask(count);
  Totals<Lanes> totals;
  totals.clear();
  const int64_t seen = (positions - 1) * image.stride + image.columns, of_column = image.pieces * Lanes::kChannels;
  for (int64_t piece = 0; piece < image.pieces; ++piece) {
    const uint8_t* const* rows = image.rows + piece * ByteColumns::kRows;
    const int64_t* steps = image.steps + piece * ByteColumns::kRows;
    const int32_t* const filter = image.filter + piece * Lanes::kChannels;
    for (int64_t j = 0; j < seen; ++j) {
      const int64_t at = first + j;
      if (at < 0 || at >= image.width) continue;
      const Words<Lanes> words = words_of<Lanes>(Lanes::load(mask, rows[0] + at * steps[0]), Lanes::load(mask, rows[1] + at * steps[1]),
                                                 Lanes::load(mask, rows[2] + at * steps[2]), Lanes::load(mask, rows[3] + at * steps[3]));
#pragma GCC unroll 16
      for (int i = 0; i < kPositions; ++i) {
        const int64_t column = j - i * image.stride;
        if (column >= 0 && column < image.columns) totals.add(i, words, filter + column * of_column);
      }
    }
  }
  totals.store(positions, sums, row);
}

// Of 3x3 filters, all columns inside the image.
template <class Lanes, int kStride>
TOROID_VNNI void sum_3x3(const ByteColumns& image, int64_t first, int64_t count, int32_t* sums, int64_t row) {
  constexpr int kColumns = 3;
  const auto mask = Lanes::mask(count);
  const uint8_t *a = image.rows[0] + first * image.steps[0], *b = image.rows[1] + first * image.steps[1],
                *c = image.rows[2] + first * image.steps[2];
  Totals<Lanes> totals;
  totals.clear();
#pragma GCC unroll 16
  for (int j = 0; j < (kPositions - 1) * kStride + kColumns; ++j) {
    const Words<Lanes> words = words_of<Lanes>(Lanes::load(mask, a), Lanes::load(mask, b), Lanes::load(mask, c), Lanes::zero());
    a += image.steps[0];
    b += image.steps[1];
    c += image.steps[2];
#pragma GCC unroll 16
    for (int i = 0; i < kPositions; ++i) {
      const int column = j - i * kStride;
      if (column >= 0 && column < kColumns) totals.add(i, words, image.filter + column * Lanes::kChannels);
    }
  }
  totals.store(kPositions, sums, row);
}

template <class Lanes>
void sum_columns(const ByteColumns& image, int64_t first, int64_t positions, int64_t count, int32_t* sums, int64_t row) {
  const int64_t seen = (kPositions - 1) * image.stride + image.columns;
  const bool is_plain = image.is_3x3 && positions == kPositions && first >= 0 && first + seen <= image.width;
  if (is_plain && image.stride == 1) return sum_3x3<Lanes, 1>(image, first, count, sums, row);
  if (is_plain && image.stride == 2) return sum_3x3<Lanes, 2>(image, first, count, sums, row);
  sum_any<Lanes>(image, first, positions, count, sums, row);
}

constexpr DepthwiseByteKernel kWhole = {Whole::kChannels, sum_columns<Whole>}, kHalf = {Half::kChannels, sum_columns<Half>};

}  // namespace

const DepthwiseByteKernel* depthwise_byte_kernel(bool is_half) { return machine().isa.vnni ? (is_half ? &kHalf : &kWhole) : nullptr; }
#else
const DepthwiseByteKernel* depthwise_byte_kernel(bool) { return nullptr; }
#endif

}  // namespace toroid
