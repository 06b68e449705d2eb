// Several keys' products are summed in vectors of their own, which are then added up together: a sum of each by itself would cost as much
// as the products.
#include "runtime/kernels/attention/decode_loops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

// Of rows that are asked for before they are read. Rows of heads that lie beside each other share sets of the first-level cache: more would
// push out what is still to be read.
constexpr int64_t kAheadBytes = 2048;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kSomeValues = 32;  // rows, which all columns pass by before the next

// ---- vectors of rows -------------------------------------------------------------------------------------------------------------------

template <class Vector>
struct Like;
#define TOROID_LIKE(LANES)                                           \
  template <>                                                        \
  struct Like<Vector##LANES> {                                       \
    using Integers = Integers##LANES;                                \
    typedef int32_t Signed __attribute__((vector_size(4 * LANES)));  \
    typedef uint16_t Halves __attribute__((vector_size(2 * LANES))); \
  };
TOROID_LIKE(16)
TOROID_LIKE(8)
TOROID_LIKE(4)
template <class Vector>
constexpr int kLanes = sizeof(Vector) / sizeof(float);

// A piece as it lies, and as floats.
template <class Element, class Vector>
struct Piece {
  using Integers = typename Like<Vector>::Integers;
  using Bits = std::conditional_t<std::is_same_v<Element, Float16>, typename Like<Vector>::Halves, Integers>;
  static constexpr int kVectors = kVectorsOfPiece<Element>;
  static constexpr int kElements = kVectors * kLanes<Vector>;

  static TOROID_INLINE void widen(const Bits& bits, Vector (&to)[kVectors]) {
    if constexpr (std::is_same_v<Element, float>) {
      to[0] = (Vector)bits;
    } else if constexpr (std::is_same_v<Element, BFloat16>) {
      to[0] = (Vector)(bits << 16);
      to[1] = (Vector)(bits & 0xffff0000u);
    } else {
      // Sign, exponent and fraction come to their places; then the exponent's bias grows by 112. What has the largest exponent is infinite
      // or NaN in float32 too.
      using Signed = typename Like<Vector>::Signed;
      constexpr float kRebias = 0x1p112f;
      constexpr uint32_t kLargest = 0x1fu << 23;
      const Integers placed = (Integers)((Signed)(__builtin_convertvector(bits, Integers) << 16) >> 3) & 0x8fffe000u;
      const Integers large = (Integers)((placed & kLargest) == kLargest);
      to[0] = (Vector)((Integers)((Vector)placed * kRebias) | (large & 0x7f800000u));
    }
  }
  static TOROID_INLINE void load(const Element* from, Vector (&to)[kVectors]) {
    Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    widen(bits, to);
  }
  static TOROID_INLINE void load_masked(const Element* from, const Bits& mask, Vector (&to)[kVectors]) {
    Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    widen(bits & mask, to);
  }
  // Lets the last `rest` elements be.
  static TOROID_INLINE void mask_of_rest(int64_t rest, Bits& mask) {
    uint8_t bytes[sizeof(Bits)] = {};
    std::memset(bytes + sizeof bytes - static_cast<size_t>(rest) * sizeof(Element), 0xff, static_cast<size_t>(rest) * sizeof(Element));
    std::memcpy(&mask, bytes, sizeof mask);
  }
};

// Groups of kGroup lanes: each of the sum takes the place of two that follow each other, a's sums before b's.
template <int kGroup, class Vector, int... kLane>
TOROID_INLINE void add_neighbours(const Vector& a, const Vector& b, std::integer_sequence<int, kLane...>, Vector& sum) {
#define TOROID_LANE (kLane / (2 * kGroup) * (2 * kGroup) + kLane % kGroup + (kLane % (2 * kGroup) >= kGroup ? kLanes<Vector> : 0))
  sum = TOROID_SHUFFLE(a, b, TOROID_LANE...) + TOROID_SHUFFLE(a, b, (TOROID_LANE + kGroup)...);
#undef TOROID_LANE
}

// Lane i of the result is the sum of vector i's lanes.
template <int kGroup, class Vector>
TOROID_INLINE void sums_of(const Vector* vectors, Vector& sums) {
  if constexpr (kGroup == 0) {
    sums = vectors[0];
  } else {
    Vector first, second;
    sums_of<kGroup / 2>(vectors, first);
    sums_of<kGroup / 2>(vectors + kGroup, second);
    add_neighbours<kGroup>(first, second, std::make_integer_sequence<int, kLanes<Vector>>(), sums);
  }
}

// What is asked for with each row: the row so many further on.
template <class Element>
struct Ahead {
  int64_t bytes;  // of a row; 0: nothing
  int64_t rows;
  explicit Ahead(const RowPieces& pieces) : bytes(static_cast<int64_t>(sizeof(Element)) * pieces.width), rows(kAheadBytes / bytes + 1) {}
  TOROID_INLINE void fetch(const KeyRows<Element>& from, int64_t row) const {
    const char* first = reinterpret_cast<const char*>(from.at(row + rows));
    for (int64_t line = 0; line < bytes; line += kLineBytes) __builtin_prefetch(first + line, 0, 3);
  }
};

// ---- the loops -------------------------------------------------------------------------------------------------------------------------

// sums[r][c] += a piece of query r, `row_floats` apart, times that of key c.
template <bool kMasked, class Part, class Element, class Vector, int kRows, int kKeys>
TOROID_INLINE void add_products(const float* queries, int64_t row_floats, const Element* const (&keys)[kKeys], int64_t at,
                                const typename Part::Bits& mask, Vector (&sums)[kRows][kKeys]) {
  Vector query[kRows][Part::kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Part::kVectors; ++v) std::memcpy(&query[r][v], queries + r * row_floats + v * kLanes<Vector>, sizeof query[r][v]);
  }
#pragma GCC unroll 16
  for (int c = 0; c < kKeys; ++c) {
    Vector key[Part::kVectors];
    kMasked ? Part::load_masked(keys[c] + at, mask, key) : Part::load(keys[c] + at, key);
#pragma GCC unroll 2
    for (int v = 0; v < Part::kVectors; ++v) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r][c] += query[r][v] * key[v];
    }
  }
}

template <class Element, class Vector, int kRows>
TOROID_INLINE void scores(const RowPieces& pieces, const float* queries, const KeyBlock<Element>& keys, float* scores, int64_t scores_row) {
  using Part = Piece<Element, Vector>;
  constexpr int kKeys = kLanes<Vector> / kRows, kAtOnce = std::min(kKeys, 8);
  const int64_t whole = pieces.whole(), rest = pieces.rest(), row_floats = pieces.floats();
  const Ahead<Element> ahead(pieces);
  typename Part::Bits mask;
  Part::mask_of_rest(rest, mask);
  for (int64_t j = 0; j < keys.count; j += kKeys) {
    Vector sums[kRows][kKeys];
#pragma GCC unroll 2
    for (int first = 0; first < kKeys; first += kAtOnce) {
      const Element* rows[kAtOnce];
#pragma GCC unroll 16
      for (int c = 0; c < kAtOnce; ++c) {
        rows[c] = keys.rows.at(std::min(j + first + c, keys.count - 1));
        ahead.fetch(keys.rows, j + first + c);
      }
      Vector some[kRows][kAtOnce] = {};
      for (int64_t p = 0; p < whole; ++p) {
        add_products<false, Part>(queries + p * Part::kElements, row_floats, rows, p * Part::kElements, mask, some);
      }
      if (rest > 0) {
        add_products<true, Part>(queries + whole * Part::kElements, row_floats, rows, pieces.width - Part::kElements, mask, some);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < kAtOnce; ++c) sums[r][first + c] = some[r][c];
      }
    }
    Vector all;
    sums_of<kLanes<Vector> / 2>(&sums[0][0], all);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      std::memcpy(scores + r * scores_row + j, reinterpret_cast<const float*>(&all) + r * kKeys, kKeys * sizeof(float));
  }
}

// kPieces pieces of the sums, of which the first is that of each value's element `at`.
template <bool kMasked, class Part, class Element, class Vector, int kRows, int kPieces>
TOROID_INLINE void add_weighted(const float* weights, int64_t weights_row, const KeyBlock<Element>& values, const Ahead<Element>& ahead,
                                int64_t at, const typename Part::Bits& mask, float* sums, int64_t row_floats) {
  Vector all[kRows][kPieces][Part::kVectors];
  // Vector by vector: an array that is copied as one does not stay in registers.
  auto for_each = [&](auto copy) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPieces; ++p) {
#pragma GCC unroll 2
        for (int v = 0; v < Part::kVectors; ++v) copy(all[r][p][v], sums + r * row_floats + (p * Part::kVectors + v) * kLanes<Vector>);
      }
    }
  };
  for_each([](Vector & vector, const float* from) __attribute__((always_inline)) { std::memcpy(&vector, from, sizeof vector); });
  for (int64_t j = 0; j < values.count; ++j) {
    ahead.fetch(values.rows, j);
#pragma GCC unroll 8
    for (int p = 0; p < kPieces; ++p) {
      Vector value[Part::kVectors];
      const Element* from = values.rows.at(j) + at + p * Part::kElements;
      kMasked ? Part::load_masked(from, mask, value) : Part::load(from, value);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < Part::kVectors; ++v) all[r][p][v] += weights[r * weights_row + j] * value[v];
      }
    }
  }
  for_each([](const Vector& vector, float* to) __attribute__((always_inline)) { std::memcpy(to, &vector, sizeof vector); });
}

template <class Element, class Vector, int kRows>
TOROID_INLINE void add(const RowPieces& pieces, const float* weights, int64_t weights_row, const KeyBlock<Element>& values, float* sums) {
  using Part = Piece<Element, Vector>;
  // As many as registers hold, beside what is multiplied.
  constexpr int kPieces = std::min(8, (kLanes<Vector> == 16 ? 16 : 8) / kRows) / Part::kVectors;
  const int64_t whole = pieces.whole(), rest = pieces.rest(), row_floats = pieces.floats();
  typename Part::Bits mask;
  Part::mask_of_rest(rest, mask);
  for (int64_t j = 0; j < values.count; j += kSomeValues) {
    const KeyBlock<Element> some = {{values.rows.at(j), values.rows.row}, std::min(kSomeValues, values.count - j)};
    Ahead<Element> ahead(pieces);
    int64_t p = 0;
    for (; p + kPieces <= whole; p += kPieces, ahead.bytes = 0) {
      add_weighted<false, Part, Element, Vector, kRows, kPieces>(weights + j, weights_row, some, ahead, p * Part::kElements, mask,
                                                                 sums + p * Part::kElements, row_floats);
    }
    for (; p < whole; ++p, ahead.bytes = 0) {
      add_weighted<false, Part, Element, Vector, kRows, 1>(weights + j, weights_row, some, ahead, p * Part::kElements, mask,
                                                           sums + p * Part::kElements, row_floats);
    }
    if (rest > 0) {
      add_weighted<true, Part, Element, Vector, kRows, 1>(weights + j, weights_row, some, ahead, pieces.width - Part::kElements, mask,
                                                          sums + whole * Part::kElements, row_floats);
    }
  }
}

#define TOROID_LOOPS(NAME, VECTOR, ...)                                                                                        \
  struct NAME {                                                                                                                \
    template <class E, int R>                                                                                                  \
    __VA_ARGS__ static void scores(const RowPieces& pieces, const float* queries, const KeyBlock<E>& keys, float* scores,      \
                                   int64_t scores_row) {                                                                       \
      toroid::scores<E, VECTOR, R>(pieces, queries, keys, scores, scores_row);                                                 \
    }                                                                                                                          \
    template <class E, int R>                                                                                                  \
    __VA_ARGS__ static void add(const RowPieces& pieces, const float* weights, int64_t weights_row, const KeyBlock<E>& values, \
                                float* sums) {                                                                                 \
      toroid::add<E, VECTOR, R>(pieces, weights, weights_row, values, sums);                                                   \
    }                                                                                                                          \
    template <class E>                                                                                                         \
    static constexpr FewQueryLoops<E> loops = {                                                                                \
        kLanes<VECTOR>, 4, {&scores<E, 1>, &scores<E, 2>, &scores<E, 4>}, {&add<E, 1>, &add<E, 2>, &add<E, 4>}};               \
    template <class E>                                                                                                         \
    static constexpr FewQueryLoops<E> small_loops = {kLanes<VECTOR>, 1, {&scores<E, 1>}, {&add<E, 1>}};                        \
  };

TOROID_LOOPS(Baseline, Vector4, TOROID_BASELINE)
#ifdef __x86_64__
TOROID_LOOPS(Avx2, Vector8, TOROID_AVX2)
TOROID_LOOPS(Avx512, Vector16, TOROID_AVX512)
#endif

}  // namespace

template <class Element>
const FewQueryLoops<Element>* few_query_loops(int64_t width) {
  auto fits = [&](const FewQueryLoops<Element>& loops) { return width >= loops.pieces(width).piece(); };
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512 && fits(Avx512::loops<Element>)) return &Avx512::loops<Element>;
  if (vector_set() != VectorSet::Baseline && fits(Avx2::loops<Element>)) return &Avx2::loops<Element>;
#endif
  return fits(Baseline::small_loops<Element>) ? &Baseline::small_loops<Element> : nullptr;
}

template const FewQueryLoops<float>* few_query_loops(int64_t width);
template const FewQueryLoops<BFloat16>* few_query_loops(int64_t width);
template const FewQueryLoops<Float16>* few_query_loops(int64_t width);

}  // namespace toroid
