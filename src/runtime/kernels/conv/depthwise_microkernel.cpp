// A vector of channels at a time. Each column of the image that the positions see is loaded once for a filter row, and added to the sums of
// all positions that it belongs to; filter columns and sums stay in registers. In groups, that is done for each of the image's channels in
// turn, which is spread over the lanes of its group. The filters of networks have kernels of their own for that; others share one that
// loads more often, and so do machines without AVX2.
#include "runtime/kernels/conv/depthwise_microkernel.h"

#include <cstring>
#include <utility>

#include "runtime/kernels/epilogue/register_post_ops.h"

namespace toroid {
namespace {

// Keeps the compiler from reading x from memory again for each sum that it is added to.
template <class Vector>
TOROID_INLINE void stay_in_register([[maybe_unused]] Vector& x) {
#ifdef TOROID_NAMES_INSTRUCTIONS
  asm("" : "+v"(x));
#endif
}

// x = its elements at these places. AVX2 and AVX-512 have the instruction; compilers disagree on its name.
template <class Vector, class Integers>
TOROID_INLINE void permute([[maybe_unused]] Vector& x, [[maybe_unused]] const Integers& places) {
#ifdef TOROID_NAMES_INSTRUCTIONS
  asm("vpermps %0, %1, %0" : "+v"(x) : "v"(places));
#elif defined(__x86_64__)
  const Vector before = x;
  for (size_t l = 0; l < sizeof(Vector) / sizeof(float); ++l) x[l] = before[places[l]];
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

// The sums go to the strip's positions.
template <class Vector, int kPositions>
TOROID_INLINE void store(const DepthwiseStrip& s, int64_t c, Vector (&sums)[kPositions]) {
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

// A filter of so many rows (0: any number) and columns.
template <class AnyVector, class AnyIntegers, int kRows, int kColumns, int kStride, int kPositions, ChannelGroups kChannelGroups,
          bool kAtEdges>
struct FixedFilter {
  using Vector = AnyVector;
  using Integers = AnyIntegers;
  static constexpr ChannelGroups kGroups = kChannelGroups;

  TOROID_INLINE explicit FixedFilter(const DepthwiseStrip& strip) : s(strip), rows(strip) {}

  TOROID_INLINE void convolve(int64_t vector, int64_t c, int64_t seen_from, const Integers& first_of_group) const {
    constexpr int kLanes = sizeof(Vector) / sizeof(float);
    constexpr int kImageColumns = (kPositions - 1) * kStride + kColumns;
    const int64_t seen = kGroups == ChannelGroups::Own ? 1 : s.seen;
    [[maybe_unused]] const uint64_t columns_there = s.columns_there;
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
          const bool is_at_edge = i < kColumns - 1 || i > kImageColumns - kColumns;
          if (kAtEdges && is_at_edge && (columns_there >> i & 1) == 0) continue;
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
    store(s, c, sums);
  }

  const DepthwiseStrip& s;
  StripRows<kRows> rows;
};

// A filter of any size and stride, an element of it after the other: a column of the image is loaded for each position that it belongs to.
template <class AnyVector, class AnyIntegers, int kPositions, ChannelGroups kChannelGroups, bool kAtEdges>
struct AnyFilter {
  using Vector = AnyVector;
  using Integers = AnyIntegers;
  static constexpr ChannelGroups kGroups = kChannelGroups;

  TOROID_INLINE explicit AnyFilter(const DepthwiseStrip& strip) : s(strip) {}

  TOROID_INLINE void convolve(int64_t vector, int64_t c, int64_t seen_from, const Integers& first_of_group) const {
    constexpr int kLanes = sizeof(Vector) / sizeof(float);
    const int64_t seen = kGroups == ChannelGroups::Own ? 1 : s.seen, columns = s.columns, stride = s.stride, image_column = s.image_column;
    [[maybe_unused]] const uint64_t columns_there = s.columns_there;
    int64_t steps[kPositions];
#pragma GCC unroll 16
    for (int p = 0; p < kPositions; ++p) steps[p] = p * stride * image_column;
    Vector sums[kPositions] = {};
    for (int64_t row = 0; row < s.filter_rows; ++row) {
      const float* image = s.image + s.image_rows[row] + seen_from;
      const float* weights = s.weights + s.weights_rows[row] + vector * s.vector_weights;
      [[maybe_unused]] Integers places = first_of_group;
      for (int64_t g = 0; g < seen; ++g, weights += kLanes) {
        for (int64_t j = 0; j < columns; ++j) {
          const float* column = image + j * image_column;
          Vector weight;
          std::memcpy(&weight, weights + j * seen * kLanes, sizeof weight);
#pragma GCC unroll 16
          for (int p = 0; p < kPositions; ++p) {
            if (kAtEdges && (columns_there >> (p * stride + j) & 1) == 0) continue;
            Vector x;
            if constexpr (kGroups == ChannelGroups::Many) {
              x = column[steps[p] + g] - Vector{};
            } else {
              std::memcpy(&x, column + steps[p], sizeof x);
            }
            if constexpr (kGroups == ChannelGroups::Few) permute(x, places);
            sums[p] += x * weight;
          }
        }
        if constexpr (kGroups == ChannelGroups::Few) places += 1;
      }
    }
    store(s, c, sums);
  }

  const DepthwiseStrip& s;
};

template <class Filter>
TOROID_INLINE void convolve(const DepthwiseStrip& s) {
  using Integers = typename Filter::Integers;
  constexpr int kLanes = sizeof(typename Filter::Vector) / sizeof(float);
  Integers first_of_group{};
  if constexpr (Filter::kGroups == ChannelGroups::Few) {
    for (int l = 0; l < kLanes; ++l) first_of_group[l] = static_cast<uint32_t>(l / s.made * s.made);
  }
  constexpr bool kMany = Filter::kGroups == ChannelGroups::Many;
  const Filter filter(s);
  for_each_vector(
      s.channels, kMany ? s.made : s.channels, kLanes, [&](int64_t vector, int64_t c) __attribute__((always_inline)) {
        filter.convolve(vector, c, kMany ? c / s.made * s.seen : c, first_of_group);
      });
}

#define TOROID_DEPTHWISE(NAME, LANES, ...)                                                             \
  struct NAME {                                                                                        \
    static constexpr int kLanes = LANES;                                                               \
    template <int kRows, int K, int S, int P, ChannelGroups kGroups, bool kAtEdges>                    \
    __VA_ARGS__ static void run(const DepthwiseStrip& strip) {                                         \
      convolve<FixedFilter<Vector##LANES, Integers##LANES, kRows, K, S, P, kGroups, kAtEdges>>(strip); \
    }                                                                                                  \
    template <int P, ChannelGroups kGroups, bool kAtEdges>                                             \
    __VA_ARGS__ static void run_any(const DepthwiseStrip& strip) {                                     \
      convolve<AnyFilter<Vector##LANES, Integers##LANES, P, kGroups, kAtEdges>>(strip);                \
    }                                                                                                  \
  };

template <class Set, ChannelGroups kGroups, bool kAtEdges, int... P>
DepthwiseKernel any_filter(const DepthwiseShape& shape, std::integer_sequence<int, P...>) {
  static constexpr DepthwiseKernel kKernels[] = {&Set::template run_any<P + 1, kGroups, kAtEdges>...};
  return kKernels[shape.positions - 1];
}
template <class Set, ChannelGroups kGroups, bool kAtEdges = false>
DepthwiseKernel any_filter(const DepthwiseShape& shape) {
  return any_filter<Set, kGroups, kAtEdges>(shape, std::make_integer_sequence<int, DepthwiseKernels::kMostPositions>());
}

TOROID_DEPTHWISE(Baseline, 4, TOROID_BASELINE)
DepthwiseKernel baseline_filter(const DepthwiseShape& shape) {
  return shape.groups == ChannelGroups::Many ? any_filter<Baseline, ChannelGroups::Many>(shape)
                                             : any_filter<Baseline, ChannelGroups::Own, true>(shape);
}
constexpr DepthwiseKernels kBaseline = {Baseline::kLanes, false, false, baseline_filter};

#ifdef __x86_64__
TOROID_DEPTHWISE(Avx2, 8, TOROID_AVX2)
TOROID_DEPTHWISE(Avx512, 16, TOROID_AVX512)

// Filters with a kernel of their own have 3, 5 or 7 columns, as networks' have, and no fewer positions: rows of 8 and more are strips of
// 4 to 7.
constexpr int kFewestPositions = 4;

constexpr int kPositionCounts = DepthwiseKernels::kMostPositions - kFewestPositions + 1;

template <class Set, int kRows, int kColumns, ChannelGroups kGroups, bool kAtEdges, size_t... I>
DepthwiseKernel fixed_filter(const DepthwiseShape& shape, std::index_sequence<I...>) {
  static constexpr DepthwiseKernel kKernels[] = {
      &Set::template run<kRows, kColumns, I / kPositionCounts + 1, I % kPositionCounts + kFewestPositions, kGroups, kAtEdges>...};
  return kKernels[(shape.stride - 1) * kPositionCounts + shape.positions - kFewestPositions];
}
template <class Set, int kRows, int kColumns, ChannelGroups kGroups, bool kAtEdges = false>
DepthwiseKernel fixed_filter(const DepthwiseShape& shape) {
  return fixed_filter<Set, kRows, kColumns, kGroups, kAtEdges>(shape,
                                                               std::make_index_sequence<DepthwiseKernels::kMostStride * kPositionCounts>());
}

template <class Set, int kColumns>
DepthwiseKernel own_filter(const DepthwiseShape& shape) {
  constexpr ChannelGroups kOwn = ChannelGroups::Own;
  // The rows are unrolled: each load is of the same row from vector to vector, whose next one is then fetched.
  if constexpr (kColumns <= 5) {
    if (shape.is_square) {
      return shape.at_edges ? fixed_filter<Set, kColumns, kColumns, kOwn, true>(shape) : fixed_filter<Set, kColumns, kColumns, kOwn>(shape);
    }
  }
  return shape.at_edges ? fixed_filter<Set, 0, kColumns, kOwn, true>(shape) : fixed_filter<Set, 0, kColumns, kOwn>(shape);
}

template <class Set>
DepthwiseKernel best_filter(const DepthwiseShape& shape) {
  const bool has_own = shape.positions >= kFewestPositions;
  switch (shape.groups) {
    case ChannelGroups::Own:
      if (shape.misses_inner_columns) return any_filter<Set, ChannelGroups::Own, true>(shape);
      if (has_own && shape.columns == 3) return own_filter<Set, 3>(shape);
      if (has_own && shape.columns == 5) return own_filter<Set, 5>(shape);
      if (has_own && shape.columns == 7) return own_filter<Set, 7>(shape);
      return shape.at_edges ? any_filter<Set, ChannelGroups::Own, true>(shape) : any_filter<Set, ChannelGroups::Own>(shape);
    case ChannelGroups::Few:
      return has_own && shape.columns == 3 ? fixed_filter<Set, 0, 3, ChannelGroups::Few>(shape)
                                           : any_filter<Set, ChannelGroups::Few>(shape);
    case ChannelGroups::Many:
      return has_own && shape.columns == 3 ? fixed_filter<Set, 0, 3, ChannelGroups::Many>(shape)
                                           : any_filter<Set, ChannelGroups::Many>(shape);
  }
  return nullptr;
}

constexpr DepthwiseKernels kAvx2 = {Avx2::kLanes, true, true, best_filter<Avx2>};
constexpr DepthwiseKernels kAvx512 = {Avx512::kLanes, true, true, best_filter<Avx512>};
#endif

}  // namespace

const DepthwiseKernels& depthwise_kernels([[maybe_unused]] int64_t channels) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512 && channels >= kAvx512.lanes) return kAvx512;
  if (vector_set() != VectorSet::Baseline && channels >= kAvx2.lanes) return kAvx2;
#endif
  return kBaseline;
}

}  // namespace toroid
