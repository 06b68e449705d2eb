// Loads, turns and interleaving go on while products are under way: what a product needs was made a step before.
#include "runtime/kernels/attention/decode_amx.h"

#include <algorithm>
#include <cstring>

#include "base/language.h"

#ifdef TOROID_KNOWS_AMX
#include <immintrin.h>
#endif

#include "runtime/kernels/isa/emulated_amx.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kStripTiles = 4;  // of keys at a time
constexpr int64_t kStrip = kStripTiles * kTileSide;
constexpr int64_t kSumBytes = kTileSide * kTileSide * static_cast<int64_t>(sizeof(float));
constexpr int64_t kMostTiles = 4;  // of sums, in registers 0 to 3

Scratch scratch_for_tiles;

int64_t bytes_of(int64_t elements) { return elements * static_cast<int64_t>(sizeof(BFloat16)); }

typedef uint16_t Elements32 __attribute__((vector_size(64)));

// A strip of keys, up to four tiles, by one of 16 queries.
struct KeyStrip {
  int64_t tiles;
  const BFloat16* keys[kStripTiles];
  int64_t row_bytes[kStripTiles];
};

// Of 1 or 2 tiles of queries and 4 or 2 of columns.
struct ValueColumns {
  const std::byte* weights;  // [tile of queries][step][query][key]
  int64_t weights_bytes;     // from a tile of queries to the next
  KeyRows<BFloat16> rows;
  int64_t count;
  const BFloat16* nothing;  // in place of a row after the last
  std::byte* interleaved;   // room for two steps
  float* sums;
  int64_t sums_row;
};

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

#ifdef TOROID_KNOWS_AMX
#define TOROID_TARGET TOROID_AVX512_AND("amx-tile,amx-bf16")
namespace native {
#include "runtime/kernels/attention/decode_amx_loops.inc"
}
#undef TOROID_TARGET
#endif

#include "runtime/kernels/isa/emulated_amx.inc"
#define TOROID_TARGET
namespace emulated {
#include "runtime/kernels/attention/decode_amx_loops.inc"
}

#ifndef TOROID_KNOWS_AMX
namespace native = emulated;  // never chosen
#endif

}  // namespace

void FewQueriesInTiles::pack_queries(const TileMatrix& queries, std::byte* to) const {
  pack_right_tiles(AmxType::BFloat16, {queries.data, queries.column, queries.row}, width_, queries_, to);
}

void FewQueriesInTiles::scores(const std::byte* queries, const KeyBlock<BFloat16>& keys, float* scores, int64_t scores_row) const {
  (machine().isa.amx ? native::multiply_strips : emulated::multiply_strips)(queries_, width_, queries, keys, scores, scores_row);
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
    (machine().isa.amx ? native::add : emulated::add)(some, query_tiles, has_four);
    column += has_four ? 4 : 2;
  }
}

}  // namespace toroid
