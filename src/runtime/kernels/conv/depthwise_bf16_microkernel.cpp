// The loops of depthwise_microkernel.cpp for images of bfloat16 and channels that are their own groups: 32 channels at a time, read as they
// lie. A shift makes floats of the even ones, a mask of the odd ones, each one instruction; sums stay apart so, and are put in order when
// they are stored. A row that is read three times is a third of what its copy in float32 would be in the caches, and no copy is made.
#include <cstring>
#include <utility>

#include "runtime/kernels/conv/depthwise_microkernel.h"
#include "runtime/kernels/epilogue/register_post_ops.h"

namespace toroid {
namespace {

#ifdef TOROID_NAMES_INSTRUCTIONS

constexpr int kPairedLanes = 32;

// Of 32 channels the even and the odd ones.
struct EvenAndOdd {
  Vector16 even, odd;
};
TOROID_INLINE void load_channels(const uint16_t* from, EvenAndOdd& x) {
  Integers16 pairs;
  std::memcpy(&pairs, from, sizeof pairs);
  x.even = (Vector16)(pairs << 16);
  x.odd = (Vector16)(pairs & 0xffff0000u);
  asm("" : "+v"(x.even), "+v"(x.odd));  // computed once, for all sums that they are added to
}
TOROID_INLINE void add_product(const EvenAndOdd& x, const float* weights, EvenAndOdd& sum) {
  Vector16 even, odd;
  std::memcpy(&even, weights, sizeof even);
  std::memcpy(&odd, weights + kPairedLanes / 2, sizeof odd);
  sum.even += x.even * even;
  sum.odd += x.odd * odd;
}

// In order, finished: to the strip's positions.
template <int kPositions>
TOROID_INLINE void store_in_order(const DepthwiseStrip& s, int64_t c, EvenAndOdd (&sums)[kPositions]) {
  constexpr int kHalf = kPairedLanes / 2;
  constexpr Integers16 kFirst = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23},
                       kLast = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
#pragma GCC unroll 16
  for (int p = 0; p < kPositions; ++p) {
    const EvenAndOdd sum = sums[p];
    sums[p] = {__builtin_shuffle(sum.even, sum.odd, kFirst), __builtin_shuffle(sum.even, sum.odd, kLast)};
  }
  if (s.finish != nullptr) {
    const Affine<Vector16> first(*s.finish, c, AllLanes<Vector16>()), last(*s.finish, c + kHalf, AllLanes<Vector16>());
    const Bounds<Vector16> bounds(*s.finish);
#pragma GCC unroll 16
    for (int p = 0; p < kPositions; ++p) {
      first.apply(sums[p].even);
      last.apply(sums[p].odd);
      bounds.apply(sums[p].even);
      bounds.apply(sums[p].odd);
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < kPositions; ++p) {
    std::memcpy(s.out + p * s.out_position + c, &sums[p].even, sizeof(Vector16));
    std::memcpy(s.out + p * s.out_position + c + kHalf, &sums[p].odd, sizeof(Vector16));
  }
}

TOROID_INLINE const uint16_t* image_of(const DepthwiseStrip& s, int64_t row, int64_t c) {
  return reinterpret_cast<const uint16_t*>(s.image) + s.image_rows[row] + c;
}

// A column of the image is read once for all positions that it belongs to. At the image's edges, where it may be missing, that is asked: it
// takes little of the time, and other kernels for what is between them would be as much code again.
template <int kColumns, int kStride, int kPositions>
TOROID_INLINE void convolve_columns(const DepthwiseStrip& s, int64_t vector, int64_t c) {
  constexpr int kImageColumns = (kPositions - 1) * kStride + kColumns;
  EvenAndOdd sums[kPositions] = {};
  for (int64_t row = 0; row < s.filter_rows; ++row) {
    const uint16_t* const image = image_of(s, row, c);
    const float* const weights = s.weights + s.weights_rows[row] + vector * s.vector_weights;
#pragma GCC unroll 32
    for (int i = 0; i < kImageColumns; ++i) {
      const bool is_at_edge = i < kColumns - 1 || i > kImageColumns - kColumns;
      if (is_at_edge && (s.columns_there >> i & 1) == 0) continue;
      EvenAndOdd x;
      load_channels(image + i * s.image_column, x);
#pragma GCC unroll 16
      for (int p = 0; p < kPositions; ++p) {
        const int j = i - p * kStride;
        if (j >= 0 && j < kColumns) add_product(x, weights + j * kPairedLanes, sums[p]);
      }
    }
  }
  store_in_order(s, c, sums);
}

// Filters of any number of columns, any of which may be missing.
template <int kPositions>
TOROID_INLINE void convolve_elements(const DepthwiseStrip& s, int64_t vector, int64_t c) {
  EvenAndOdd sums[kPositions] = {};
  for (int64_t row = 0; row < s.filter_rows; ++row) {
    const uint16_t* const image = image_of(s, row, c);
    const float* const weights = s.weights + s.weights_rows[row] + vector * s.vector_weights;
    for (int64_t j = 0; j < s.columns; ++j) {
#pragma GCC unroll 16
      for (int p = 0; p < kPositions; ++p) {
        const int64_t i = p * s.stride + j;
        if ((s.columns_there >> i & 1) == 0) continue;
        EvenAndOdd x;
        load_channels(image + i * s.image_column, x);
        add_product(x, weights + j * kPairedLanes, sums[p]);
      }
    }
  }
  store_in_order(s, c, sums);
}

template <int kColumns, int kStride, int kPositions>
TOROID_AVX512 void run_columns(const DepthwiseStrip& s) {
  for_each_vector(
      s.channels, s.channels, kPairedLanes, [&](int64_t vector, int64_t c) __attribute__((always_inline)) {
        convolve_columns<kColumns, kStride, kPositions>(s, vector, c);
      });
}
template <int kPositions>
TOROID_AVX512 void run_elements(const DepthwiseStrip& s) {
  for_each_vector(
      s.channels, s.channels,
      kPairedLanes, [&](int64_t vector, int64_t c) __attribute__((always_inline)) { convolve_elements<kPositions>(s, vector, c); });
}

// As networks have them: 3, 5 or 7 columns, and no fewer positions than rows of 8 and more are cut into.
constexpr int kFewestPairedPositions = 4;

constexpr int kPairedPositionCounts = DepthwiseKernels::kMostPositions - kFewestPairedPositions + 1;

template <int kColumns, size_t... I>
DepthwiseKernel of_columns(const DepthwiseShape& shape, std::index_sequence<I...>) {
  static constexpr DepthwiseKernel kKernels[] = {
      &run_columns<kColumns, I / kPairedPositionCounts + 1, I % kPairedPositionCounts + kFewestPairedPositions>...};
  return kKernels[(shape.stride - 1) * kPairedPositionCounts + shape.positions - kFewestPairedPositions];
}
template <int kColumns>
DepthwiseKernel of_columns(const DepthwiseShape& shape) {
  return of_columns<kColumns>(shape, std::make_index_sequence<DepthwiseKernels::kMostStride * kPairedPositionCounts>());
}

template <int... P>
DepthwiseKernel of_elements(const DepthwiseShape& shape, std::integer_sequence<int, P...>) {
  static constexpr DepthwiseKernel kKernels[] = {&run_elements<P + 1>...};
  return kKernels[shape.positions - 1];
}

DepthwiseKernel paired_kernel(const DepthwiseShape& shape) {
  const bool has_own = shape.positions >= kFewestPairedPositions && !shape.misses_inner_columns;
  if (has_own && shape.columns == 3) return of_columns<3>(shape);
  if (has_own && shape.columns == 5) return of_columns<5>(shape);
  if (has_own && shape.columns == 7) return of_columns<7>(shape);
  return of_elements(shape, std::make_integer_sequence<int, DepthwiseKernels::kMostPositions>());
}

constexpr DepthwiseKernels kOfPairs = {kPairedLanes, true, false, paired_kernel};
#endif

}  // namespace

const DepthwiseKernels* bf16_depthwise_kernels() {
#ifdef TOROID_NAMES_INSTRUCTIONS
  if (vector_set() == VectorSet::Avx512) return &kOfPairs;
#endif
  return nullptr;
}

int64_t bf16_depthwise_lane(int64_t channel) {
#ifdef TOROID_NAMES_INSTRUCTIONS
  return channel % 2 * (kPairedLanes / 2) + channel / 2;
#else
  return channel;
#endif
}

}  // namespace toroid
