// A vector of channels at a time. Each column of the image that the positions see is loaded once for a filter row, and added to the sums of all
// positions that it belongs to; filter columns and sums stay in registers. In groups, that is done for each channel of a group in turn, which a
// permutation spreads over the lanes of its group.
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

// x = its elements at these places. AVX2 and AVX-512 have the instruction; compilers disagree on its name.
template <class Vector, class Integers>
TOROID_INLINE void permute([[maybe_unused]] Vector& x, [[maybe_unused]] const Integers& places) {
#ifdef __x86_64__
  asm("vpermps %0, %1, %0" : "+v"(x) : "v"(places));
#endif
}

template <class Vector, class Integers, int kColumns, int kStride, int kPositions, bool kGrouped>
TOROID_INLINE void convolve(const DepthwiseStrip& s) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kImageColumns = (kPositions - 1) * kStride + kColumns;
  const int64_t width = kGrouped ? s.width : 1;
  Integers first_of_group{};
  if constexpr (kGrouped) {
    for (int l = 0; l < kLanes; ++l) first_of_group[l] = static_cast<uint32_t>(l / width * width);
  }
  for (int64_t channel = 0; channel < s.channels; channel += kLanes) {
    // The last vector repeats channels of the one before where they do not fill it.
    const int64_t c = channel + kLanes <= s.channels ? channel : s.channels - kLanes;
    Vector sums[kPositions] = {};
    for (int64_t row = 0; row < s.filter_rows; ++row) {
      const float* image = s.image + s.image_rows[row] + c;
      const float* weights = s.weights + s.weights_rows[row] + c;
      Integers places = first_of_group;
      for (int64_t g = 0; g < width; ++g, weights += s.channels, places += 1) {
        Vector filter[kColumns];
#pragma GCC unroll 16
        for (int j = 0; j < kColumns; ++j) std::memcpy(&filter[j], weights + j * width * s.channels, sizeof(Vector));
#pragma GCC unroll 16
        for (int i = 0; i < kImageColumns; ++i) {
          Vector x;
          std::memcpy(&x, image + i * s.image_column, sizeof x);
          if constexpr (kGrouped) permute(x, places);
          stay_in_register(x);
#pragma GCC unroll 16
          for (int p = 0; p < kPositions; ++p) {
            const int j = i - p * kStride;
            if (j >= 0 && j < kColumns) sums[p] += x * filter[j];
          }
        }
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < kPositions; ++p) std::memcpy(s.out + p * s.channels + c, &sums[p], sizeof(Vector));
  }
}

#define TOROID_DEPTHWISE(NAME, LANES, ...)                                          \
  struct NAME {                                                                     \
    static constexpr int kLanes = LANES;                                            \
    template <int K, int S, int P, bool kGrouped>                                   \
    __VA_ARGS__ static void run(const DepthwiseStrip& strip) {                      \
      convolve<Vector##LANES, Integers##LANES, K, S, P, kGrouped>(strip);           \
    }                                                                               \
  };

TOROID_DEPTHWISE(Baseline, 4)
#ifdef __x86_64__
TOROID_DEPTHWISE(Avx2, 8, TOROID_AVX2)
TOROID_DEPTHWISE(Avx512, 16, TOROID_AVX512)
#endif

// By filter columns, strides and positions.
template <class Set, bool kGrouped, int kColumns, size_t... I>
constexpr void fill(void (*(&kernels)[kColumns][DepthwiseKernels::kMostStride][DepthwiseKernels::kMostPositions])(const DepthwiseStrip&),
                    std::index_sequence<I...>) {
  constexpr size_t kStrides = DepthwiseKernels::kMostStride, kPositions = DepthwiseKernels::kMostPositions;
  ((kernels[I / kPositions / kStrides][I / kPositions % kStrides][I % kPositions] =
        &Set::template run<I / kPositions / kStrides + 1, I / kPositions % kStrides + 1, I % kPositions + 1, kGrouped>),
   ...);
}

template <class Set>
constexpr DepthwiseKernels kernels_of() {
  using K = DepthwiseKernels;
  DepthwiseKernels result = {Set::kLanes, {}, {}};
  constexpr int kShapes = K::kMostStride * K::kMostPositions;
  fill<Set, false>(result.convolve, std::make_index_sequence<K::kMostColumns * kShapes>{});
  if constexpr (Set::kLanes > 4) fill<Set, true>(result.convolve_groups, std::make_index_sequence<K::kMostGroupedColumns * kShapes>{});
  return result;
}

}  // namespace

const DepthwiseKernels& depthwise_kernels() {
#ifdef __x86_64__
  static constexpr DepthwiseKernels avx2 = kernels_of<Avx2>();
  static constexpr DepthwiseKernels avx512 = kernels_of<Avx512>();
  if (vector_set() == VectorSet::Avx512) return avx512;
  if (vector_set() == VectorSet::Avx2) return avx2;
#endif
  static constexpr DepthwiseKernels baseline = kernels_of<Baseline>();
  return baseline;
}

}  // namespace toroid
