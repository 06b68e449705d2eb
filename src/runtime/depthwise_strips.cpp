// A vector of channels at a time. Each column of the image that the positions see is loaded once for a filter row, and added to the sums of all
// positions that it belongs to; filter columns and sums stay in registers.
#include "runtime/depthwise_strips.h"

#include <cstring>
#include <utility>

#include "runtime/vector_sets.h"

namespace toroid {
namespace {

// Keeps the compiler from reading x from memory again for each sum that it is added to.
template <class Vector>
TOROID_INLINE void stay_in_register([[maybe_unused]] Vector& x) {
#ifdef __x86_64__
  asm("" : "+v"(x));
#endif
}

template <class Vector, int kColumns, int kStride, int kPositions>
TOROID_INLINE void convolve(const DepthwiseStrip& s) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kImageColumns = (kPositions - 1) * kStride + kColumns;
  for (int64_t channel = 0; channel < s.channels; channel += kLanes) {
    // The last vector repeats channels of the one before where they do not fill it.
    const int64_t c = channel + kLanes <= s.channels ? channel : s.channels - kLanes;
    Vector sums[kPositions] = {};
    for (int64_t row = 0; row < s.filter_rows; ++row) {
      const float* image = s.image + s.image_rows[row] + c;
      const float* weights = s.weights + s.weights_rows[row] + c;
      Vector filter[kColumns];
#pragma GCC unroll 16
      for (int j = 0; j < kColumns; ++j) std::memcpy(&filter[j], weights + j * s.channels, sizeof(Vector));
#pragma GCC unroll 16
      for (int i = 0; i < kImageColumns; ++i) {
        Vector x;
        std::memcpy(&x, image + i * s.image_column, sizeof x);
        stay_in_register(x);
#pragma GCC unroll 16
        for (int p = 0; p < kPositions; ++p) {
          const int j = i - p * kStride;
          if (j >= 0 && j < kColumns) sums[p] += x * filter[j];
        }
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < kPositions; ++p) std::memcpy(s.out + p * s.channels + c, &sums[p], sizeof(Vector));
  }
}

#define TOROID_DEPTHWISE(NAME, VECTOR, ...)                                    \
  struct NAME {                                                                \
    static constexpr int kLanes = sizeof(VECTOR) / sizeof(float);              \
    template <int K, int S, int P>                                             \
    __VA_ARGS__ static void run(const DepthwiseStrip& strip) {                 \
      convolve<VECTOR, K, S, P>(strip);                                        \
    }                                                                          \
  };

TOROID_DEPTHWISE(Baseline, Vector4)
#ifdef __x86_64__
TOROID_DEPTHWISE(Avx2, Vector8, TOROID_AVX2)
TOROID_DEPTHWISE(Avx512, Vector16, TOROID_AVX512)
#endif

template <class Set, size_t... I>
constexpr DepthwiseKernels kernels_of(std::index_sequence<I...>) {
  using K = DepthwiseKernels;
  DepthwiseKernels result = {Set::kLanes, {}};
  ((result.convolve[I / K::kMostPositions / K::kMostStride][I / K::kMostPositions % K::kMostStride][I % K::kMostPositions] =
        &Set::template run<I / K::kMostPositions / K::kMostStride + 1, I / K::kMostPositions % K::kMostStride + 1, I % K::kMostPositions + 1>),
   ...);
  return result;
}

}  // namespace

const DepthwiseKernels& depthwise_kernels() {
  constexpr std::make_index_sequence<DepthwiseKernels::kMostColumns * DepthwiseKernels::kMostStride * DepthwiseKernels::kMostPositions> all;
#ifdef __x86_64__
  static constexpr DepthwiseKernels avx2 = kernels_of<Avx2>(all);
  static constexpr DepthwiseKernels avx512 = kernels_of<Avx512>(all);
  if (vector_set() == VectorSet::Avx512) return avx512;
  if (vector_set() == VectorSet::Avx2) return avx2;
#endif
  static constexpr DepthwiseKernels baseline = kernels_of<Baseline>(all);
  return baseline;
}

}  // namespace toroid
