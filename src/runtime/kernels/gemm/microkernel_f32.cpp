// The source of the tile in registers: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. Six rows and four
// vectors of 16 lanes leave a vector's load to several multiplications, and fit into 32 registers; so do 14 rows and two vectors.
#include "runtime/kernels/gemm/microkernel_f32.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/kernels/epilogue/register_post_ops.h"

namespace toroid {
namespace {

template <class Vector, int kCount>
TOROID_INLINE void take_vectors(const float*& from, Vector (&to)[kCount]) {
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i, from += kLanesOf<Vector>) std::memcpy(&to[i], from, sizeof to[i]);
}

template <class Vector, int kRowsOfTile, int kVectors>
struct Tile {
  static constexpr int kLanes = kLanesOf<Vector>, kRows = kRowsOfTile;
  static constexpr int kElements = 1;  // of a row at a time

  // Unrolled whole, here and below, or the sums would live in memory.
  TOROID_INLINE void add_products(const float* const (&a)[kRows], int64_t at, const float*& b) {
    Vector columns[kVectors];
    take_vectors(b, columns);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const float x = a[i][at];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[i][v] += x * columns[v];
    }
  }

  TOROID_INLINE void store(const StripOutput& out) const {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const int64_t count = out.columns - v * kLanes;
      if (v + 1 < kVectors || count >= kLanes) {
        store_columns(v, AllLanes<Vector>(), out);
      } else {
        store_columns(v, FirstLanes<Vector>(count), out);
      }
    }
  }

  template <class Lanes>
  TOROID_INLINE void store_columns(int v, const Lanes& lanes, const StripOutput& out) const {
    float* const to = out.data + v * kLanes;
    auto store_rows = [&](auto change) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        Vector x = sums[i][v];
        change(i, x);
        lanes.store(x, to + i * out.row);
      }
    };
    auto add = [&](const float* from, Vector& x) __attribute__((always_inline)) {
      Vector other;
      lanes.load(from, other);
      x += other;
    };
    if (out.finish == nullptr) {
      if (!out.add) return store_rows([](int, Vector&) __attribute__((always_inline)){});
      return store_rows([&](int i, Vector& x) __attribute__((always_inline)) { add(to + i * out.row, x); });
    }
    const Affine<Vector> affine(*out.finish, v * kLanes, lanes);
    const Bounds<Vector> bounds(*out.finish);
    if (out.residual == nullptr) {
      return store_rows([&](int, Vector& x) __attribute__((always_inline)) {
        affine.apply(x);
        bounds.apply(x);
      });
    }
    const float* const residual = out.residual + v * kLanes;
    store_rows([&](int i, Vector& x) __attribute__((always_inline)) {
      affine.apply(x);
      add(residual + i * out.finish->residual_row, x);
      bounds.apply(x);
    });
  }

  Vector sums[kRows][kVectors] = {};
};

#ifdef __x86_64__
typedef uint64_t Pairs8 __attribute__((vector_size(64)));

// The neighbours' sums: those of `first`, then those of `second`.
TOROID_INLINE void add_neighbours(const Vector16& first, const Vector16& second, Vector16& sums) {
#ifdef __clang__
  sums = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
  constexpr Integers16 kFirst = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  sums = __builtin_shuffle(first, second, kFirst) + __builtin_shuffle(first, second, kFirst + 1);
#endif
}

// Sums of pairs of elements, those of the first ones in the even lanes: one load spreads a pair over a vector. So columns that fill half a vector take half
// the multiplications of a whole one, and two halves half the loads.
template <int kRowsOfTile, int kHalves>
struct PairTile {
  static constexpr int kLanes = kLanesOf<Vector16>, kRows = kRowsOfTile;
  static constexpr int kElements = 2;

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

  TOROID_INLINE void store(const StripOutput& out) const {
    Tile<Vector16, kRows, (kHalves + 1) / 2> tile;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int h = 0; h < kHalves; h += 2) add_neighbours(sums[i][h], h + 1 < kHalves ? sums[i][h + 1] : Vector16{}, tile.sums[i][h / 2]);
    }
    tile.store(out);
  }

  Vector16 sums[kRows][kHalves] = {};
};
#endif

// Adds what is in `sums` to the totals, which begin with it, and empties it. The totals are in the first-level cache.
template <class Vector, int kRows, int kVectors>
TOROID_INLINE void move_to_totals(Vector (&sums)[kRows][kVectors], Vector (&totals)[kRows][kVectors], bool begin) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      totals[i][v] = begin ? sums[i][v] : totals[i][v] + sums[i][v];
      sums[i][v] = Vector{};
    }
  }
}

template <class AnyTile>
TOROID_INLINE void multiply(const Run* runs, int64_t count, const float* const* rows, const float* b, const StripOutput& out, Ahead ahead) {
  constexpr int kRows = AnyTile::kRows;
  AnyTile tile;
  decltype(AnyTile::sums) totals;
  constexpr int kVectors = static_cast<int>(std::extent_v<decltype(totals), 1>);
  bool has_totals = false;
  int64_t summed = 0;
  for (int64_t r = 0; r < count; ++r) {
    if (summed + runs[r].length > kLongestRun && summed > 0) {
      move_to_totals(tile.sums, totals, !has_totals);
      has_totals = true;
      summed = 0;
    }
    summed += runs[r].length;
    const float* a[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) a[i] = rows[i] + runs[r].offset;
    const int64_t length = runs[r].length;
    for (int64_t p = 0; p < length;) {
      for (int64_t line = 0; line < ahead.lines; ++line, ahead.data += kCacheLine) __builtin_prefetch(ahead.data, 0, 2);
      for (const int64_t end = std::min(length, p + kStepsPerFetch); p < end; p += AnyTile::kElements) tile.add_products(a, p, b);
    }
  }
  if (has_totals) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) tile.sums[i][v] += totals[i][v];
    }
  }
  tile.store(out);
}

template <class Vector, int kRows, int kVectors>
TOROID_INLINE void multiply_scattered(const int64_t* offsets, int64_t count, const float* const* rows, const float* b,
                                      const StripOutput& out) {
  Tile<Vector, kRows, kVectors> tile;
  const float* a[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) a[i] = rows[i];
  for (int64_t p = 0; p < count; ++p) tile.add_products(a, offsets[p], b);
  tile.store(out);
}

#define TOROID_STRIPS(NAME, VECTOR, VECTORS, REGISTERS, ...)                                                                           \
  struct NAME {                                                                                                                        \
    static constexpr int kVectors = VECTORS;                                                                                           \
    static constexpr int kRegisters = REGISTERS;                                                                                       \
    static constexpr int kLanes = kLanesOf<VECTOR>;                                                                                    \
    template <int R, int V>                                                                                                            \
    __VA_ARGS__ static void multiply(const Run* runs, int64_t count, const float* const* rows, const float* b, const StripOutput& out, \
                                     Ahead ahead) {                                                                                    \
      toroid::multiply<Tile<VECTOR, R, V>>(runs, count, rows, b, out, ahead);                                                          \
    }                                                                                                                                  \
    template <int R, int V>                                                                                                            \
    __VA_ARGS__ static void multiply_scattered(const int64_t* offsets, int64_t count, const float* const* rows, const float* b,        \
                                               const StripOutput& out) {                                                               \
      toroid::multiply_scattered<VECTOR, R, V>(offsets, count, rows, b, out);                                                          \
    }                                                                                                                                  \
  };

TOROID_STRIPS(Baseline, Vector4, 2, 16)
#ifdef __x86_64__
TOROID_STRIPS(Avx2, Vector8, 2, 16, TOROID_AVX2)
TOROID_STRIPS(Avx512, Vector16, 4, 32, TOROID_AVX512)

template <int R, int H>
TOROID_AVX512 void multiply_pairs(const Run* runs, int64_t count, const float* const* rows, const float* b, const StripOutput& out,
                                  Ahead ahead) {
  multiply<PairTile<R, H>>(runs, count, rows, b, out, ahead);
}
#endif

// As many sums as leave registers for a step's vectors, an element and its product: of narrow panels more rows. A sum is ready four cycles after its
// multiplication began, two of which begin in each, so fewer than eight would be waited for.
template <class Set>
constexpr int most_rows(int vectors) {
  return vectors > Set::kVectors ? 0 : std::min(GemmMicrokernels::kMostNarrowRows, (Set::kRegisters - vectors - 2) / vectors);
}

template <class Set, int R, int V>
constexpr void fill(GemmMicrokernels& kernels) {
  if constexpr (R <= most_rows<Set>(V)) {
    kernels.multiply[R - 1][V - 1] = &Set::template multiply<R, V>;
    kernels.multiply_scattered[R - 1][V - 1] = &Set::template multiply_scattered<R, V>;
  }
}

#ifdef __x86_64__
// Where halves save multiplications, or loads of a single vector.
constexpr int most_rows_in_pairs(int halves) {
  return halves > 2 && halves % 2 == 0 ? 0 : std::min(GemmMicrokernels::kMostNarrowRows, (Avx512::kRegisters - halves - 2) / halves);
}

template <size_t... I>
constexpr void fill_pairs(GemmMicrokernels& kernels, std::index_sequence<I...>) {
  constexpr int kHalves = GemmMicrokernels::kMostHalves;
  auto fill_one = [&]<int R, int H>() {
    kernels.most_rows_in_pairs[H - 1] = most_rows_in_pairs(H);
    if constexpr (R <= most_rows_in_pairs(H)) kernels.multiply_pairs[R - 1][H - 1] = &multiply_pairs<R, H>;
  };
  (fill_one.template operator()<I / kHalves + 1, I % kHalves + 1>(), ...);
}

constexpr GemmMicrokernels with_pairs(GemmMicrokernels kernels) {
  fill_pairs(kernels, std::make_index_sequence<GemmMicrokernels::kMostNarrowRows * GemmMicrokernels::kMostHalves>());
  return kernels;
}
#endif

template <class Set, size_t... I>
constexpr GemmMicrokernels kernels_of(std::index_sequence<I...>) {
  constexpr int kVectors = GemmMicrokernels::kMostVectors;
  GemmMicrokernels kernels = {
      Set::kLanes, Set::kVectors, {most_rows<Set>(1), most_rows<Set>(2), most_rows<Set>(3), most_rows<Set>(4)}, {}, {}, {}, {}};
  (fill<Set, I / kVectors + 1, I % kVectors + 1>(kernels), ...);
  return kernels;
}

constexpr std::make_index_sequence<GemmMicrokernels::kMostNarrowRows * GemmMicrokernels::kMostVectors> kAll;
constexpr GemmMicrokernels kBaseline = kernels_of<Baseline>(kAll);
#ifdef __x86_64__
constexpr GemmMicrokernels kAvx2 = kernels_of<Avx2>(kAll);
constexpr GemmMicrokernels kAvx512 = with_pairs(kernels_of<Avx512>(kAll));
#endif

}  // namespace

#ifdef __x86_64__
const GemmMicrokernels* const kStripKernels[3] = {&kBaseline, &kAvx2, &kAvx512};
#else
const GemmMicrokernels* const kStripKernels[3] = {&kBaseline, &kBaseline, &kBaseline};
#endif

}  // namespace toroid
