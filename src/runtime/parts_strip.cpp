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
  TOROID_INLINE void after(int64_t step, int64_t steps) {
    constexpr int64_t kEvery = 3;
    if (step % kEvery == kEvery - 1 && step + 1 < steps) _tile_stored(6, nowhere_, kTileRowBytes);
  }

 private:
  alignas(kTileRowBytes) std::byte nowhere_[kTileBytes];
};

struct NoRows {
  TOROID_INLINE explicit NoRows(RowsToSplit*) {}
  TOROID_INLINE void next() {}
  TOROID_INLINE void give_back() {}
};

// By itself the loop is compiled without vectors: among them the compiler keeps addresses in their registers, which takes 2.5 % longer.
namespace alone {
#define TOROID_TARGET __attribute__((target("amx-tile,amx-bf16")))
#define TOROID_ROWS NoRows
#include "runtime/parts_loop.inc"
#undef TOROID_TARGET
#undef TOROID_ROWS
}  // namespace alone

namespace beside_rows {
#define TOROID_TARGET __attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16")))
#define TOROID_ROWS RowSplitter
#include "runtime/parts_loop.inc"
#undef TOROID_TARGET
#undef TOROID_ROWS
}  // namespace beside_rows

}  // namespace

bool RowsToSplit::finish() {
  if (left() > 0) split(*this);
  return fit_;
}

void multiply_tiles_of_parts(const PartsStrip& strip) {
  const bool splits = strip.rows != nullptr && strip.pieces > 0 && strip.rows->left() > 0;
  splits ? beside_rows::multiply(strip) : alone::multiply(strip);
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
