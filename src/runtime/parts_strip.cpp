#include "runtime/parts_strip.h"

#include <algorithm>
#include <cstring>

#include "runtime/float_parts.h"
#include "runtime/float_parts_vectors.h"
#include "support/error.h"

namespace toroid {

RowsToSplit::RowsToSplit(const StepElements& elements, Range steps, std::span<const float* const> rows, std::byte* out)
    : elements_(&elements), steps_(steps), rows_(rows), step_(steps.first), out_(out) {}

#ifdef __x86_64__
#define TOROID_TILES_AND_VECTORS __attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16")))

// What RowsToSplit has, in a loop's registers.
class RowSplitter {
 public:
  TOROID_AVX512 TOROID_INLINE explicit RowSplitter(RowsToSplit* rows) : rows_(*rows), together_(rows->elements_->together()), step_(rows->step_) {
    to_ = rows_.out_ + rows_.row_of_tile_ * kPartsRowBytes + (step_ - rows_.steps_.first) * kPartsBytes;
    std::memcpy(&splitter_.most, rows_.most_, sizeof splitter_.most);
    find_row();
  }
  TOROID_AVX512 TOROID_INLINE void give_back() {
    std::memcpy(rows_.most_, &splitter_.most, sizeof splitter_.most);
    rows_.step_ = step_;
  }

  TOROID_AVX512 TOROID_INLINE void next() {
    float_parts::split_piece(*rows_.elements_, together_, step_, row_, ahead_, splitter_, to_);
    to_ += kPartsBytes;
    if (++step_ == rows_.steps_.last) end_row();
  }

 private:
  TOROID_AVX512 TOROID_INLINE void end_row() {
    rows_.fit_ = rows_.fit_ && splitter_.all_fit();
    splitter_ = {};
    step_ = rows_.steps_.first;
    rows_.rows_ = rows_.rows_.subspan(1);
    if (++rows_.row_of_tile_ == kTileSide) {
      rows_.row_of_tile_ = 0;
      rows_.out_ += rows_.steps_.size() * kPartsBytes;
    }
    to_ = rows_.out_ + rows_.row_of_tile_ * kPartsRowBytes;
    find_row();
  }
  TOROID_AVX512 TOROID_INLINE void find_row() {
    if (rows_.rows_.empty()) return;
    row_ = rows_.rows_.front();
    ahead_ = rows_.rows_[std::min(float_parts::kRowsAhead, rows_.rows_.size() - 1)];
  }

  RowsToSplit& rows_;
  const Run* const together_;
  const float* row_ = nullptr;
  const float* ahead_ = nullptr;
  int64_t step_;
  std::byte* to_;
  float_parts::Splitter splitter_;
};

namespace {

TOROID_AVX512 void split(RowsToSplit& rows) {
  RowSplitter splitter(&rows);
  for (int64_t left = rows.left(); left > 0; --left) splitter.next();
  splitter.give_back();
}

// The first store of a tile for about 900 ns takes about 250 ns longer than one that follows another sooner, whatever is loaded and multiplied in between
// (seen on Xeons of the fourth generation). So products that take longer store a tile to nowhere now and then: of 784 x 256 by 256 x 512 numbers in parts 830 us
// became 722, of 784 x 768 by 768 x 256 1148 became 1104.
class StoresAwake {
 public:
  // After each of so many steps in parts.
  TOROID_TILES_AND_VECTORS TOROID_INLINE void after(int64_t step, int64_t steps) {
    constexpr int64_t kEvery = 3;
    if (step % kEvery == kEvery - 1 && step + 1 < steps) _tile_stored(6, nowhere_, kTileRowBytes);
  }

 private:
  alignas(kTileRowBytes) std::byte nowhere_[kTileBytes];
};

struct NoRows {
  TOROID_AVX512 TOROID_INLINE explicit NoRows(RowsToSplit*) {}
  TOROID_AVX512 TOROID_INLINE void next() {}
  TOROID_AVX512 TOROID_INLINE void give_back() {}
};

// The parts of both sides follow each other so that every other product finds one side's in its registers.
template <bool kTwoRows, bool kTwoColumns, class Rows>
TOROID_TILES_AND_VECTORS void multiply(const PartsStrip& strip) {
  if (strip.before != nullptr) {
    const int64_t row_bytes = strip.row_before * kWordBytes;
    const float* const lower = strip.before + kTileSide * strip.row_before;
    _tile_loadd(0, strip.before, row_bytes);
    if constexpr (kTwoColumns) _tile_loadd(1, strip.before + kTileSide, row_bytes);
    if constexpr (kTwoRows) _tile_loadd(2, lower, row_bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, lower + kTileSide, row_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  constexpr int64_t kProducts = 6;
  Rows rows(strip.rows);
  int64_t to_split = strip.rows != nullptr ? strip.rows->left() : 0;
  const int64_t at_once = (strip.pieces + kProducts - 1) / kProducts;
  const std::byte *first = strip.ahead[0], *second = strip.ahead[1];
  StoresAwake stores;
#define TOROID_LEFT(PART)                                                          \
  _tile_loadd(4, strip.left[0] + left + (PART) * kTileRowBytes, kPartsRowBytes);   \
  if constexpr (kTwoRows) _tile_loadd(5, strip.left[1] + left + (PART) * kTileRowBytes, kPartsRowBytes);
#define TOROID_RIGHT(PART)                                                         \
  _tile_loadd(6, strip.right[0] + offset + (PART) * kTileBytes, kTileRowBytes);    \
  if constexpr (kTwoColumns) _tile_loadd(7, strip.right[1] + offset + (PART) * kTileBytes, kTileRowBytes);
#define TOROID_MULTIPLY                                                            \
  _tile_dpbf16ps(0, 4, 6);                                                         \
  if constexpr (kTwoColumns) _tile_dpbf16ps(1, 4, 7);                              \
  if constexpr (kTwoRows) _tile_dpbf16ps(2, 5, 6);                                 \
  if constexpr (kTwoRows && kTwoColumns) _tile_dpbf16ps(3, 5, 7);                  \
  for (int64_t line = 0; line < strip.lines; ++line, first += kTileRowBytes, second += kTileRowBytes) { \
    __builtin_prefetch(first, 0, 2);                                               \
    __builtin_prefetch(second, 0, 2);                                              \
  }                                                                                \
  for (int64_t i = 0; i < at_once && pieces > 0; ++i, --pieces) rows.next();
  for (int64_t step = 0; step < strip.steps; ++step) {
    const int64_t left = strip.offsets[step], offset = step * kPartsBytes;
    int64_t pieces = std::min(strip.pieces, to_split);
    to_split -= pieces;
    TOROID_LEFT(0)
    TOROID_RIGHT(2)
    TOROID_MULTIPLY
    TOROID_RIGHT(1)
    TOROID_MULTIPLY
    TOROID_LEFT(1)
    TOROID_MULTIPLY
    TOROID_RIGHT(0)
    TOROID_MULTIPLY
    TOROID_LEFT(2)
    TOROID_MULTIPLY
    TOROID_LEFT(0)
    TOROID_MULTIPLY
    stores.after(step, strip.steps);
  }
#undef TOROID_LEFT
#undef TOROID_RIGHT
#undef TOROID_MULTIPLY
  rows.give_back();
  const int64_t row_bytes = strip.row * kWordBytes;
  float* const lower = strip.sums + kTileSide * strip.row;
  _tile_stored(0, strip.sums, row_bytes);
  if constexpr (kTwoColumns) _tile_stored(1, strip.sums + kTileSide, row_bytes);
  if constexpr (kTwoRows) _tile_stored(2, lower, row_bytes);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, lower + kTileSide, row_bytes);
}

template <class Rows>
void multiply(const PartsStrip& strip) {
  const bool two_rows = strip.left[1] != nullptr, two_columns = strip.right[1] != nullptr;
  if (two_rows) return two_columns ? multiply<true, true, Rows>(strip) : multiply<true, false, Rows>(strip);
  return two_columns ? multiply<false, true, Rows>(strip) : multiply<false, false, Rows>(strip);
}

}  // namespace

bool RowsToSplit::finish() {
  if (left() > 0) split(*this);
  return fit_;
}

void multiply_tiles_of_parts(const PartsStrip& strip) {
  const bool splits = strip.rows != nullptr && strip.pieces > 0 && strip.rows->left() > 0;
  splits ? multiply<RowSplitter>(strip) : multiply<NoRows>(strip);
}
#else
namespace {
constexpr const char* kNoParts = "this machine has no tiles for parts of floats";
}
bool RowsToSplit::finish() {
  TOROID_CHECK(false, kNoParts);
  return false;
}
void multiply_tiles_of_parts(const PartsStrip&) { TOROID_CHECK(false, kNoParts); }
#endif

}  // namespace toroid
