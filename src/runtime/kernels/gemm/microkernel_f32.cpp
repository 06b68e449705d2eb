// Microkernels of float32.
#include "runtime/kernels/gemm/microkernel.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/kernels/epilogue/register_post_ops.h"

namespace toroid {
namespace {

#include "runtime/kernels/gemm/microkernel_loops.inc"

#ifdef __x86_64__
typedef uint64_t Pairs8 __attribute__((vector_size(64)));

// The neighbours' sums: those of `first`, then those of `second`.
TOROID_INLINE void add_neighbours(const Vector16& first, const Vector16& second, Vector16& sums) {
#ifdef __clang__
  sums = TOROID_SHUFFLE(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         TOROID_SHUFFLE(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
  constexpr Integers16 kFirst = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  sums = __builtin_shuffle(first, second, kFirst) + __builtin_shuffle(first, second, kFirst + 1);
#endif
}
#endif

}  // namespace

namespace microkernel_f32_levels {

TOROID_STRIPS(Baseline, Vector4, 2, 16, GemmMicrokernels::kMostRows, TOROID_BASELINE)
#ifdef __x86_64__
TOROID_STRIPS(Avx2, Vector8, 2, 16, GemmMicrokernels::kMostNarrowRows, TOROID_AVX2)
TOROID_STRIPS(Avx512, Vector16, 4, 32, GemmMicrokernels::kMostNarrowRows, TOROID_AVX512)
#endif

}  // namespace microkernel_f32_levels

namespace {

using namespace microkernel_f32_levels;

#ifdef __x86_64__
// Tiles of pairs of elements in memory, `halves` vectors of them a row, go where `out` says.
TOROID_AVX512 __attribute__((noinline)) void store_pairs(const Vector16* pairs, int rows, int halves, const StripOutput& out) {
  Vector16 sums[GemmMicrokernels::kMostNarrowRows * 2];
  const int vectors = (halves + 1) / 2;
  for (int i = 0; i < rows; ++i, pairs += halves) {
    for (int h = 0; h < halves; h += 2) {
      add_neighbours(pairs[h], h + 1 < halves ? pairs[h + 1] : Vector16{}, sums[i * vectors + h / 2]);
    }
  }
  Avx512::store_from_memory(sums, rows, vectors, out);
}

// Sums of pairs of elements, those of the first ones in the even lanes: one load spreads a pair over a vector. So columns that fill half a
// vector take half the multiplications of a whole one, and two halves half the loads.
template <int kRowsOfTile, int kHalves>
struct PairTile {
  static constexpr int kRows = kRowsOfTile, kVectors = kHalves;
  static constexpr int kElements = 2;
  static constexpr bool kIsWhole = false;
  using Vector = Vector16;
  using Element = float;
  using Output = StripOutput;

  TOROID_INLINE void add_products(const float* const (&a)[kRows], int64_t at, const float*& b) {
    Vector16 columns[kHalves];
    take_vectors(b, columns);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      uint64_t pair;
      std::memcpy(&pair, a[i] + at, sizeof pair);
      const Pairs8 spread = pair - Pairs8{};
      Vector16 x;
      std::memcpy(&x, &spread, sizeof x);
#pragma GCC unroll 16
      for (int h = 0; h < kHalves; ++h) sums[i][h] += x * columns[h];
    }
  }

  // As Tile's. The last vector of a row is often filled in part.
  TOROID_INLINE bool store(const StripOutput& out) const {
    if (out.add || out.residual != nullptr) return false;
    using Whole = Tile<Vector16, kRows, (kHalves + 1) / 2>;
    Whole tile;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int h = 0; h < kHalves; h += 2) add_neighbours(sums[i][h], h + 1 < kHalves ? sums[i][h + 1] : Vector16{}, tile.sums[i][h / 2]);
    }
    tile.store(FirstLanes<Vector16>(out.columns - (Whole::kVectors - 1) * Whole::kLanes), out);
    return true;
  }

  template <class Set>
  TOROID_INLINE static void store_from_memory(const Vector* sums, const StripOutput& out) {
    store_pairs(sums, kRows, kHalves, out);
  }

  Vector sums[kRows][kHalves] = {};
};

}  // namespace

namespace microkernel_f32_levels {

template <int R, int H>
TOROID_AVX512 void avx512_pairs(Span<const Run> depth, const float* const* rows, const float* b, const StripOutput& out, Ahead ahead) {
  toroid::multiply<Avx512, PairTile<R, H>>(depth, rows, b, out, ahead);
}

}  // namespace microkernel_f32_levels

namespace {

// Where halves save multiplications, or loads of a single vector.
constexpr int most_rows_in_pairs(int halves) {
  return halves > 2 && halves % 2 == 0 ? 0 : std::min(GemmMicrokernels::kMostNarrowRows, (Avx512::kRegisters - halves - 2) / halves);
}

template <int R, int H>
constexpr void fill_pair(GemmMicrokernels& kernels) {
  kernels.most_rows_in_pairs[H - 1] = most_rows_in_pairs(H);
  if constexpr (R <= most_rows_in_pairs(H)) kernels.multiply_pairs[R - 1][H - 1] = &avx512_pairs<R, H>;
}
template <size_t... I>
constexpr void fill_pairs(GemmMicrokernels& kernels, std::index_sequence<I...>) {
  constexpr int kHalves = GemmMicrokernels::kMostHalves;
  (fill_pair<I / kHalves + 1, I % kHalves + 1>(kernels), ...);
}

constexpr GemmMicrokernels with_pairs(GemmMicrokernels kernels) {
  fill_pairs(kernels, std::make_index_sequence<GemmMicrokernels::kMostNarrowRows * GemmMicrokernels::kMostHalves>());
  return kernels;
}
#endif

constexpr GemmMicrokernels kBaseline = kernels_of<Baseline>(kAll);
#ifdef __x86_64__
constexpr GemmMicrokernels kAvx2 = kernels_of<Avx2>(kAll);
constexpr GemmMicrokernels kAvx512 = with_pairs(kernels_of<Avx512>(kAll));
#endif

}  // namespace

#ifdef __x86_64__
template <>
const GemmMicrokernels* const MicrokernelSets<float>::all[3] = {&kBaseline, &kAvx2, &kAvx512};
#else
template <>
const GemmMicrokernels* const MicrokernelSets<float>::all[3] = {&kBaseline, &kBaseline, &kBaseline};
#endif

}  // namespace toroid
