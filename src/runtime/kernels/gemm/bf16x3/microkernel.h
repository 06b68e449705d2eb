// The innermost loop of products in parts (split.h): tiles of rows with tiles of columns, and other rows that become parts meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "runtime/kernels/gemm/bf16x3/split.h"
#include "runtime/kernels/gemm/partition.h"
#include "runtime/kernels/isa/amx.h"

namespace toroid {

// Rows that are to be in parts, which are split a step of a row at a time: tiles take so long that vectors can do it beside them.
class RowsToSplit {
 public:
  RowsToSplit() = default;  // none
  // Some steps of each row. `out`: as split_rows writes them with steps kPartsBytes apart, and behind a tile of rows the next. `elements`
  // and `rows` are to stay.
  RowsToSplit(const StepElements& elements, Range steps, Span<const float* const> rows, std::byte* out);

  // Steps of rows that are not split yet.
  int64_t left() const { return static_cast<int64_t>(rows_.size()) * steps_.size() - (step_ - steps_.first); }
  // Splits those. False: some row cannot be in parts, and what was written is of no use.
  bool finish();

 private:
  friend class RowSplitter;
  void split_plainly();

  const StepElements* elements_ = nullptr;
  Range steps_ = {0, 0};
  Span<const float* const> rows_;  // from the one at hand on
  int64_t row_of_tile_ = 0, step_ = 0;
  std::byte* out_ = nullptr;  // of the tile of rows
  bool fit_ = true;
  alignas(64) uint16_t most_[kStepElements] = {};  // of the row at hand (ColumnsInParts)
};

// Up to two tiles of rows and two of columns; the second of each may be null.
struct PartsStrip {
  const std::byte* left[2];   // [row][part][element]; the tile of a step begins at its offset
  const int64_t* offsets;     // by step, in bytes
  const std::byte* right[2];  // [step][part][word][column]
  int64_t steps;
  float* sums;  // F32, `row` elements from row to row
  int64_t row;
  const float* before;  // what they are added to, or null; in rows `row_before` apart
  int64_t row_before;
  // What of the right side is needed next: so many lines of 64 bytes are asked for after each of a step's products of parts.
  const std::byte* ahead[2] = {nullptr, nullptr};
  int64_t lines = 0;
  RowsToSplit* rows = nullptr;  // of which so many pieces are split in each step
  int64_t pieces = 0;
};
// Takes TileRegisters in scope, and has_amx_bf16x3().
void multiply_tiles_of_parts(const PartsStrip& strip);
// The same with a right side as ColumnsInParts::split_line has it, from any word on; no rows are split beside.
void multiply_line_of_parts(const PartsStrip& strip, int64_t part_bytes);

}  // namespace toroid
