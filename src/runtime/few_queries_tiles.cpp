// Loads, turns and interleaving go on while products are under way: what a product needs was made a step before.
#include "runtime/few_queries_tiles.h"

#if defined(__x86_64__) && defined(__linux__)

#include <algorithm>
#include <cstring>

#include <immintrin.h>

#include "runtime/rows16.h"
#include "runtime/scratch.h"
#include "runtime/vector_sets.h"

namespace toroid {
namespace {

#define TOROID_TILE_LOOP __attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16")))

constexpr int64_t kStripTiles = 4;                       // of keys at a time
constexpr int64_t kStrip = kStripTiles * kTileSide;
constexpr int64_t kSumBytes = kTileSide * kTileSide * static_cast<int64_t>(sizeof(float));
constexpr int64_t kMostTiles = 4;                        // of sums, in registers 0 to 3

thread_local Scratch scratch_for_tiles;

int64_t bytes_of(int64_t elements) { return elements * static_cast<int64_t>(sizeof(BFloat16)); }

typedef uint16_t Elements32 __attribute__((vector_size(64)));

// out[word][column] of pairs of 32 columns, a tile of 16 after the other: words are two rows' elements.
template <int kPairs>
TOROID_TILE_LOOP inline void interleave(const BFloat16* first, const BFloat16* second, std::byte* out) {
#pragma GCC unroll 2
  for (int i = 0; i < kPairs; ++i) {
    Elements32 a, b;
    std::memcpy(&a, first + i * kStepElements, sizeof a);
    std::memcpy(&b, second + i * kStepElements, sizeof b);
    const Elements32 low = __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44,
                                                   13, 45, 14, 46, 15, 47);
    const Elements32 high = __builtin_shufflevector(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27,
                                                    59, 28, 60, 29, 61, 30, 62, 31, 63);
    std::memcpy(out + 2 * i * kTileBytes, &low, sizeof low);
    std::memcpy(out + (2 * i + 1) * kTileBytes, &high, sizeof high);
  }
}

// to[q][key] = from[key][q] for four of a tile's 16 queries, and 16 keys.
TOROID_TILE_LOOP inline void turn_four(const float* from, float* to, int64_t to_row) {
  Vector16 keys[4];   // every fourth
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Vector4 fours[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) std::memcpy(&fours[j], from + (4 * j + i) * kTileSide, sizeof fours[j]);
    const Vector8 low = __builtin_shufflevector(fours[0], fours[1], 0, 1, 2, 3, 4, 5, 6, 7);
    const Vector8 high = __builtin_shufflevector(fours[2], fours[3], 0, 1, 2, 3, 4, 5, 6, 7);
    keys[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    Vector16 pairs[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Vector16 &a = keys[2 * i], &b = keys[2 * i + 1];
      pairs[i] = half == 0 ? __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
                           : __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    const Vector16 first = __builtin_shufflevector(pairs[0], pairs[1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    const Vector16 second = __builtin_shufflevector(pairs[0], pairs[1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    std::memcpy(to + 2 * half * to_row, &first, sizeof first);
    std::memcpy(to + (2 * half + 1) * to_row, &second, sizeof second);
  }
}

// A strip of keys, up to four tiles, by one of 16 queries.
struct KeyStrip {
  int64_t tiles;
  const BFloat16* keys[kStripTiles];
  int64_t row_bytes[kStripTiles];
};

TOROID_TILE_LOOP inline void multiply_keys(const KeyStrip& strip, const std::byte* queries, int64_t steps) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  // Tile after tile, as keys lie in memory; registers take turns, so that a load need not wait for the last product.
#define TOROID_MULTIPLY(TILE, KEYS, QUERIES)                                                                \
  if (strip.tiles > TILE) {                                                                                 \
    for (int64_t step = 0; step < steps; ++step) {                                                          \
      _tile_loadd(KEYS, strip.keys[TILE] + step * kStepElements, strip.row_bytes[TILE]);                    \
      _tile_loadd(QUERIES, queries + step * kTileBytes, kTileRowBytes);                                     \
      _tile_dpbf16ps(TILE, KEYS, QUERIES);                                                                  \
    }                                                                                                       \
  }
  TOROID_MULTIPLY(0, 4, 6)
  TOROID_MULTIPLY(1, 5, 7)
  TOROID_MULTIPLY(2, 4, 6)
  TOROID_MULTIPLY(3, 5, 7)
#undef TOROID_MULTIPLY
}

TOROID_TILE_LOOP inline void store_sums(float* to) {
  _tile_stored(0, to, kTileRowBytes);
  _tile_stored(1, to + kTileSide * kTileSide, kTileRowBytes);
  _tile_stored(2, to + 2 * kTileSide * kTileSide, kTileRowBytes);
  _tile_stored(3, to + 3 * kTileSide * kTileSide, kTileRowBytes);
}

// Of 1 or 2 tiles of queries and 4 or 2 of columns.
struct ValueColumns {
  const std::byte* weights;        // [tile of queries][step][query][key]
  int64_t weights_bytes;           // from a tile of queries to the next
  KeyRows<BFloat16> rows;
  int64_t count;
  const BFloat16* nothing;         // in place of a row after the last
  std::byte* interleaved;          // room for two steps
  float* sums;
  int64_t sums_row;
};

template <int kQueryTiles, int kColumnTiles>
TOROID_TILE_LOOP void add_columns(const ValueColumns& c) {
  static_assert(kQueryTiles * kColumnTiles <= kMostTiles);
  const int64_t steps = steps_of(c.count), row_bytes = c.sums_row * kWordBytes;
  constexpr bool kFourTiles = kQueryTiles * kColumnTiles == kMostTiles;
  float* const second = c.sums + (kColumnTiles == 4 ? 2 * kTileSide : kTileSide * c.sums_row);   // the second two tiles of sums
  auto interleave_step = [&](int64_t step) __attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16"))) {
    std::byte* to = c.interleaved + step % 2 * kColumnTiles * kTileBytes;
    for (int64_t j = step * kStepElements; j < (step + 1) * kStepElements; j += 2, to += kTileRowBytes) {
      interleave<kColumnTiles / 2>(j < c.count ? c.rows.at(j) : c.nothing, j + 1 < c.count ? c.rows.at(j + 1) : c.nothing, to);
    }
  };
  // Sums of the first tile of queries come first.
  _tile_loadd(0, c.sums, row_bytes);
  _tile_loadd(1, c.sums + kTileSide, row_bytes);
  if constexpr (kFourTiles) {
    _tile_loadd(2, second, row_bytes);
    _tile_loadd(3, second + kTileSide, row_bytes);
  }
  interleave_step(0);
  for (int64_t step = 0; step < steps; ++step) {
    if (step + 1 < steps) interleave_step(step + 1);
    const std::byte* values = c.interleaved + step % 2 * kColumnTiles * kTileBytes;
    _tile_loadd(7, c.weights + step * kTileBytes, kTileRowBytes);
    _tile_loadd(4, values, kTileRowBytes);
    _tile_dpbf16ps(0, 7, 4);
    _tile_loadd(5, values + kTileBytes, kTileRowBytes);
    _tile_dpbf16ps(1, 7, 5);
    if constexpr (kColumnTiles == 4) {
      _tile_loadd(6, values + 2 * kTileBytes, kTileRowBytes);
      _tile_dpbf16ps(2, 7, 6);
      _tile_loadd(4, values + 3 * kTileBytes, kTileRowBytes);
      _tile_dpbf16ps(3, 7, 4);
    } else if constexpr (kQueryTiles == 2) {
      _tile_loadd(6, c.weights + c.weights_bytes + step * kTileBytes, kTileRowBytes);
      _tile_dpbf16ps(2, 6, 4);
      _tile_dpbf16ps(3, 6, 5);
    }
  }
  _tile_stored(0, c.sums, row_bytes);
  _tile_stored(1, c.sums + kTileSide, row_bytes);
  if constexpr (kFourTiles) {
    _tile_stored(2, second, row_bytes);
    _tile_stored(3, second + kTileSide, row_bytes);
  }
}

// The keys [first, …) in whole tiles: of what is less there is a copy.
KeyStrip strip_of(const KeyBlock<BFloat16>& keys, int64_t first, int64_t width, BFloat16* copy) {
  KeyStrip strip = {std::min(kStripTiles, tiles_of(keys.count - first)), {}, {}};
  for (int64_t tile = 0; tile < strip.tiles; ++tile, first += kTileSide) {
    strip.keys[tile] = keys.rows.at(first);
    strip.row_bytes[tile] = bytes_of(keys.rows.row);
    const int64_t rows = keys.count - first;
    if (rows >= kTileSide) continue;
    std::memset(static_cast<void*>(copy), 0, static_cast<size_t>(bytes_of(kTileSide * width)));
    for (int64_t i = 0; i < rows; ++i) std::memcpy(copy + i * width, keys.rows.at(first + i), static_cast<size_t>(bytes_of(width)));
    strip.keys[tile] = copy;
    strip.row_bytes[tile] = bytes_of(width);
  }
  return strip;
}

// Turns a strip's sums into rows of scores.
TOROID_TILE_LOOP void turn_strip(const float* sums, int64_t tiles, int64_t queries, float* scores, int64_t scores_row) {
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const float* from = sums + tile * kTileSide * kTileSide;
    float* to = scores + tile * kTileSide;
    for (int64_t q = 0; q < queries; q += 4) turn_four(from + q, to + q * scores_row, scores_row);
  }
}

TOROID_TILE_LOOP void multiply_strips(int64_t queries_count, int64_t width, const std::byte* queries, const KeyBlock<BFloat16>& keys, float* scores,
                                      int64_t scores_row) {
  const int64_t steps = steps_of(width);
  float* const memory = scratch_for_tiles.get((2 * kStripTiles * kSumBytes + bytes_of(kTileSide * width)) / kWordBytes);
  auto* const copy = reinterpret_cast<BFloat16*>(memory + 2 * kStrip * kTileSide);
  struct {
    const float* sums = nullptr;
    int64_t tiles, queries;
    float* scores;
  } last;
  int64_t turn = 0;
  for (int64_t j = 0; j < keys.count; j += kStrip) {
    const KeyStrip strip = strip_of(keys, j, width, copy);
    for (int64_t q = 0; q < queries_count; q += kTileSide, turn ^= 1) {
      float* const sums = memory + turn * kStrip * kTileSide;
      multiply_keys(strip, queries + q / kTileSide * steps * kTileBytes, steps);
      if (last.sums != nullptr) turn_strip(last.sums, last.tiles, last.queries, last.scores, scores_row);
      store_sums(sums);
      last = {sums, strip.tiles, std::min(kTileSide, queries_count - q), scores + q * scores_row + j};
    }
  }
  if (last.sums != nullptr) turn_strip(last.sums, last.tiles, last.queries, last.scores, scores_row);
}

}  // namespace

void FewQueriesInTiles::pack_queries(const TileMatrix& queries, std::byte* to) const {
  pack_right_tiles(TileNumbers::BFloat16, {queries.data, queries.column, queries.row}, width_, queries_, to);
}

void FewQueriesInTiles::scores(const std::byte* queries, const KeyBlock<BFloat16>& keys, float* scores, int64_t scores_row) const {
  multiply_strips(queries_, width_, queries, keys, scores, scores_row);
}

void FewQueriesInTiles::add(const float* weights, int64_t weights_row, const KeyBlock<BFloat16>& values, float* sums) const {
  const int64_t steps = steps_of(values.count), query_tiles = tiles_of(queries_), weights_bytes = steps * kTileBytes;
  const int64_t bytes = query_tiles * weights_bytes + 2 * kMostTiles * kTileBytes + bytes_of(out_width_);
  auto* const rounded = reinterpret_cast<std::byte*>(scratch_for_tiles.get(bytes / kWordBytes));
  std::byte* const interleaved = rounded + query_tiles * weights_bytes;
  auto* const nothing = reinterpret_cast<BFloat16*>(interleaved + 2 * kMostTiles * kTileBytes);
  std::memset(static_cast<void*>(nothing), 0, static_cast<size_t>(bytes_of(out_width_)));
  for (int64_t q = 0; q < query_tiles * kTileSide; ++q) {
    std::byte* to = rounded + q / kTileSide * weights_bytes + q % kTileSide * kTileRowBytes;
    for (int64_t step = 0; step < steps; ++step, to += kTileBytes) {
      const int64_t some = q < queries_ ? std::min(kStepElements, values.count - step * kStepElements) : 0;
      round_row(DType::BF16, weights + q * weights_row + step * kStepElements, some, reinterpret_cast<uint16_t*>(to));
      if (some < kStepElements) std::memset(to + bytes_of(some), 0, static_cast<size_t>(bytes_of(kStepElements - some)));
    }
  }
  const int64_t columns = tiles_of(out_width_);
  for (int64_t column = 0; column < columns;) {
    const KeyRows<BFloat16> rows = {values.rows.data + column * kTileSide, values.rows.row};
    const ValueColumns some = {rounded, weights_bytes, rows, values.count, nothing, interleaved, sums + column * kTileSide, out_width_};
    const bool has_four = query_tiles == 1 && column + 4 <= columns;
    has_four ? add_columns<1, 4>(some) : query_tiles == 1 ? add_columns<1, 2>(some) : add_columns<2, 2>(some);
    column += has_four ? 4 : 2;
  }
}

}  // namespace toroid

#else

#include "support/error.h"

namespace toroid {

// Nobody asks for them where has_tiles() says no.
void FewQueriesInTiles::pack_queries(const TileMatrix&, std::byte*) const { TOROID_CHECK(false); }
void FewQueriesInTiles::scores(const std::byte*, const KeyBlock<BFloat16>&, float*, int64_t) const { TOROID_CHECK(false); }
void FewQueriesInTiles::add(const float*, int64_t, const KeyBlock<BFloat16>&, float*) const { TOROID_CHECK(false); }

}  // namespace toroid

#endif
