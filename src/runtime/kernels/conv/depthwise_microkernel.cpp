// A vector of channels at a time. Each column of the image that the positions see is loaded once for a filter row, and added to the sums of all
// positions that it belongs to; filter columns and sums stay in registers. In groups, that is done for each of the image's channels in turn, which is
// spread over the lanes of its group.
#include "runtime/kernels/conv/depthwise_microkernel.h"

#include <cstring>
#include <utility>

#include "runtime/kernels/epilogue/register_post_ops.h"

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

// What stays the same for all vectors of channels, of a filter of so many rows; 0: any number.
template <int kRows>
struct StripRows {
  TOROID_INLINE explicit StripRows(const DepthwiseStrip& s) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      image_[i] = s.image + s.image_rows[i];
      weights_[i] = s.weights + s.weights_rows[i];
    }
  }
  TOROID_INLINE const float* image(const DepthwiseStrip&, int64_t row) const { return image_[row]; }
  TOROID_INLINE const float* weights(const DepthwiseStrip&, int64_t row) const { return weights_[row]; }

  const float* image_[kRows];
  const float* weights_[kRows];
};
template <>
struct StripRows<0> {
  TOROID_INLINE explicit StripRows(const DepthwiseStrip&) {}
  TOROID_INLINE const float* image(const DepthwiseStrip& s, int64_t row) const { return s.image + s.image_rows[row]; }
  TOROID_INLINE const float* weights(const DepthwiseStrip& s, int64_t row) const { return s.weights + s.weights_rows[row]; }
};

template <class Vector, class Integers, int kRows, int kColumns, int kStride, int kPositions, ChannelGroups kGroups, bool kAtEdges>
TOROID_INLINE void convolve_vector(const DepthwiseStrip& s, const StripRows<kRows>& rows, int64_t vector, int64_t c, int64_t seen_from,
                                   [[maybe_unused]] const Integers& first_of_group) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kImageColumns = (kPositions - 1) * kStride + kColumns;
  const int64_t seen = kGroups == ChannelGroups::Own ? 1 : s.seen;
  Vector sums[kPositions] = {};
  auto add_row = [&](int64_t row) __attribute__((always_inline)) {
    const float* image = rows.image(s, row) + seen_from;
    const float* weights = rows.weights(s, row) + vector * s.vector_weights;
    [[maybe_unused]] Integers places = first_of_group;
    for (int64_t g = 0; g < seen; ++g, weights += kLanes) {
      Vector filter[kColumns];
#pragma GCC unroll 16
      for (int j = 0; j < kColumns; ++j) std::memcpy(&filter[j], weights + j * seen * kLanes, sizeof(Vector));
#pragma GCC unroll 32
      for (int i = 0; i < kImageColumns; ++i) {
        if (kAtEdges && (i < s.first_column || i >= s.last_column)) continue;
        Vector x;
        if constexpr (kGroups == ChannelGroups::Many) {
          x = image[i * s.image_column + g] - Vector{};  // plus zero would be an addition
        } else {
          std::memcpy(&x, image + i * s.image_column, sizeof x);
        }
        if constexpr (kGroups == ChannelGroups::Few) permute(x, places);
        stay_in_register(x);
#pragma GCC unroll 16
        for (int p = 0; p < kPositions; ++p) {
          const int j = i - p * kStride;
          if (j >= 0 && j < kColumns) sums[p] += x * filter[j];
        }
      }
      if constexpr (kGroups == ChannelGroups::Few) places += 1;
    }
  };
  if constexpr (kRows > 0) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) add_row(row);
  } else {
    for (int64_t row = 0; row < s.filter_rows; ++row) add_row(row);
  }
  if (s.finish != nullptr) {
    const Affine<Vector> affine(*s.finish, c, AllLanes<Vector>());
    const Bounds<Vector> bounds(*s.finish);
#pragma GCC unroll 16
    for (int p = 0; p < kPositions; ++p) {
      affine.apply(sums[p]);
      bounds.apply(sums[p]);
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < kPositions; ++p) std::memcpy(s.out + p * s.out_position + c, &sums[p], sizeof(Vector));
}

template <class Vector, class Integers, int kRows, int kColumns, int kStride, int kPositions, ChannelGroups kGroups, bool kAtEdges>
TOROID_INLINE void convolve(const DepthwiseStrip& s) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  Integers first_of_group{};
  if constexpr (kGroups == ChannelGroups::Few) {
    for (int l = 0; l < kLanes; ++l) first_of_group[l] = static_cast<uint32_t>(l / s.made * s.made);
  }
  constexpr bool kMany = kGroups == ChannelGroups::Many;
  const StripRows<kRows> rows(s);
  for_each_vector(
      s.channels, kMany ? s.made : s.channels, kLanes, [&](int64_t vector, int64_t c) __attribute__((always_inline)) {
        const int64_t seen_from = kMany ? c / s.made * s.seen : c;
        convolve_vector<Vector, Integers, kRows, kColumns, kStride, kPositions, kGroups, kAtEdges>(s, rows, vector, c, seen_from,
                                                                                                   first_of_group);
      });
}

#define TOROID_DEPTHWISE(NAME, LANES, ...)                                                \
  struct NAME {                                                                           \
    static constexpr int kLanes = LANES;                                                  \
    template <int kRows, int K, int S, int P, ChannelGroups kGroups, bool kAtEdges>       \
    __VA_ARGS__ static void run(const DepthwiseStrip& strip) {                            \
      convolve<Vector##LANES, Integers##LANES, kRows, K, S, P, kGroups, kAtEdges>(strip); \
    }                                                                                     \
  };

TOROID_DEPTHWISE(Baseline, 4)
#ifdef __x86_64__
TOROID_DEPTHWISE(Avx2, 8, TOROID_AVX2)
TOROID_DEPTHWISE(Avx512, 16, TOROID_AVX512)
#endif

template <class Set, ChannelGroups kGroups, bool kAtEdges, bool kSquare, int kColumns, int kStrides, int kPositions, size_t... I>
constexpr void fill(DepthwiseKernels::Kernel (&kernels)[kColumns][kStrides][kPositions], std::index_sequence<I...>) {
  ((kernels[I / kPositions / kStrides][I / kPositions % kStrides][I % kPositions] =
        &Set::template run < kSquare ? I / kPositions / kStrides + 1 : 0,
    I / kPositions / kStrides + 1, I / kPositions % kStrides + 1, I % kPositions + 1, kGroups, kAtEdges >),
   ...);
}
template <class Set, ChannelGroups kGroups, bool kAtEdges = false, bool kSquare = false, int kColumns, int kStrides, int kPositions>
constexpr void fill(DepthwiseKernels::Kernel (&kernels)[kColumns][kStrides][kPositions]) {
  fill<Set, kGroups, kAtEdges, kSquare>(kernels, std::make_index_sequence<kColumns * kStrides * kPositions>{});
}

template <class Set>
constexpr DepthwiseKernels kernels_of() {
  DepthwiseKernels result = {Set::kLanes, Set::kLanes > 4, {}, {}, {}, {}, {}, {}};
  fill<Set, ChannelGroups::Own>(result.own);
  fill<Set, ChannelGroups::Own, true>(result.own_at_edges);
  fill<Set, ChannelGroups::Own, false, true>(result.own_square);
  fill<Set, ChannelGroups::Own, true, true>(result.own_square_at_edges);
  if constexpr (Set::kLanes > 4) fill<Set, ChannelGroups::Few>(result.few);
  fill<Set, ChannelGroups::Many>(result.many);
  return result;
}

}  // namespace

const DepthwiseKernels& depthwise_kernels([[maybe_unused]] int64_t channels) {
#ifdef __x86_64__
  static constexpr DepthwiseKernels avx2 = kernels_of<Avx2>();
  static constexpr DepthwiseKernels avx512 = kernels_of<Avx512>();
  if (vector_set() == VectorSet::Avx512 && channels >= avx512.lanes) return avx512;
  if (vector_set() != VectorSet::Baseline && channels >= avx2.lanes) return avx2;
#endif
  static constexpr DepthwiseKernels baseline = kernels_of<Baseline>();
  return baseline;
}

}  // namespace toroid
