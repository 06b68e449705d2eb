#include "runtime/kernels/gemm/bf16x3/microkernel.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/bf16x3/split_numbers.h"
#include "runtime/kernels/gemm/bf16x3/split_vectors.h"
#include "runtime/kernels/gemm/bf16x3/sums_of_block.h"
#include "runtime/kernels/isa/emulated_amx.h"

namespace toroid {

RowsToSplit::RowsToSplit(const StepElements& elements, Range steps, Span<const float* const> rows, std::byte* out)
    : elements_(&elements), steps_(steps), rows_(rows), step_(steps.first), out_(out) {}

#ifdef __x86_64__
// What RowsToSplit has, in a loop's registers.
class RowSplitter {
 public:
  TOROID_AVX512 TOROID_INLINE explicit RowSplitter(RowsToSplit* rows)
      : rows_(*rows), together_(rows->elements_->together()), step_(rows->step_) {
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

#endif

namespace {

// So many pieces of what is left of the rows. Inlined it would bring vectors into the loop that calls it: the compiler then keeps addresses
// in their registers, and the loop takes 2.5 % longer.
#ifdef __x86_64__
TOROID_AVX512 __attribute__((noinline)) void split_pieces(RowsToSplit& rows, int64_t pieces) {
  RowSplitter splitter(&rows);
  for (; pieces > 0; --pieces) splitter.next();
  splitter.give_back();
}
#else
void split_pieces(RowsToSplit&, int64_t) {}
#endif

#define TOROID_RIGHT_PART kTileBytes
#define TOROID_RIGHT_STEP kPartsBytes
#ifdef TOROID_KNOWS_AMX
#define TOROID_TARGET __attribute__((target("amx-tile,amx-bf16")))
#include "runtime/kernels/gemm/bf16x3/microkernel_loop.inc"
#undef TOROID_TARGET
#endif
#include "runtime/kernels/isa/emulated_amx.inc"
}  // namespace

// Symbols of its own, which packages may leave out (package/level_code.sh).
namespace emulated {
#define TOROID_TARGET
#include "runtime/kernels/gemm/bf16x3/microkernel_loop.inc"
#undef TOROID_TARGET
}  // namespace emulated

void RowsToSplit::split_plainly() {
  for (; !rows_.empty(); rows_ = rows_.subspan(1), step_ = steps_.first) {
    std::byte* const to = out_ + row_of_tile_ * kPartsRowBytes;
    for (; step_ < steps_.last; ++step_) {
      float_parts::split_step_of_row(elements_->of(step_), rows_.front(), most_, to + (step_ - steps_.first) * kPartsBytes);
    }
    fit_ = fit_ && float_parts::all_fit(most_);
    std::fill(std::begin(most_), std::end(most_), uint16_t{0});
    if (++row_of_tile_ == kTileSide) {
      row_of_tile_ = 0;
      out_ += steps_.size() * kPartsBytes;
    }
  }
}

bool RowsToSplit::finish() {
  if (left() <= 0) return fit_;
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) {
    split_pieces(*this, left());
    return fit_;
  }
#endif
  split_plainly();
  return fit_;
}

void multiply_tiles_of_parts(const PartsStrip& strip) {
  int64_t to_split = 0;
#ifdef __x86_64__
  if (strip.rows != nullptr && vector_set() == VectorSet::Avx512) to_split = strip.rows->left();
#endif
#ifdef TOROID_KNOWS_AMX
  if (machine().isa.amx) return multiply(strip, to_split);
#endif
  emulated::multiply(strip, to_split);
}

}  // namespace toroid
