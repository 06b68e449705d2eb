// F32 numbers as sums of three BF16 numbers, so that machines which multiply tiles of BF16 many times faster than vectors of F32
// multiply these with them.
//
//   x = high + middle + low     exactly, unless x is subnormal or a part of it would be
//   a b = high high + (high middle + middle high) + (high low + middle middle + low high) + what is below 2^-24 |a b|
//
// Each part has 8 significant bits, `high` is rounded to nearest, so what is left out of a product is less than what rounding the
// product to F32 may take from it. Sums are F32, as they are without parts, and fewer of them are rounded: an instruction adds 32
// products before it adds their sum. Source: G. Henry, P. T. P. Tang, A. Heinecke, "Leveraging the bfloat16 Artificial
// Intelligence Datatype For Higher-Precision Computations", 2019.
//
// The tiles' instructions take subnormal parts and results for 0, an error of at most 2^-126 each. Rows and columns of which that
// is not far below the largest element, unless all their elements are subnormal, and those that are so large that parts of a sum
// could overflow, are refused; so are infinities and NaN, as inf - inf is no sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/span.h"
#include "runtime/kernels/gemm/microkernel.h"
#include "runtime/kernels/isa/amx.h"

namespace toroid {

// The largest element of each row or column must be 0, subnormal, or between these.
constexpr int kLeastExponentOfParts = -100, kMostExponentOfParts = 50;

// The elements of a row, cut into the steps of a product in tiles.
class StepElements {
 public:
  explicit StepElements(Span<const Run> runs, int64_t of_step = kStepElements);
  int64_t steps() const { return static_cast<int64_t>(begins_.size()) - 1; }
  // A step's elements, `of_step` of them or, in the last, fewer.
  Span<const Run> of(int64_t step) const {
    const auto s = static_cast<size_t>(step);
    return {runs_.data() + begins_[s], begins_[s + 1] - begins_[s]};
  }
  // Each step's elements where they lie together; of other steps the length is 0.
  const Run* together() const { return together_.data(); }

 private:
  std::vector<Run> runs_;
  std::vector<size_t> begins_;
  std::vector<Run> together_;
};

// Are there tiles of BF16, and vectors to make parts with?
bool has_amx_bf16x3();

// The left side: rows in the steps [first, last), as [step][row][part][element] with `step_bytes` from step to step. False: they
// cannot be in parts, and what is in `out` is of no use.
bool split_rows(const StepElements& elements, int64_t first, int64_t last, Span<const float* const> rows, int64_t step_bytes,
                std::byte* out);
// The right side: tiles of up to 16 columns, as [step][part][word][column]. Of a step's elements a word has the i-th and the (i + 16)-th,
// on both sides.
class ColumnsInParts {
 public:
  // A step of up to kStepElements rows, which are `row` elements apart; missing rows and columns are 0, and not read.
  void split(const float* from, int64_t row, int64_t rows, int64_t columns, std::byte* out);
  // A line of rows, from + where[i], or 0 where that is negative, of which there are 16 more than `count`. Word i has rows i and i + 16, so
  // that a step may begin with any row: [part][word][column], parts `part_bytes` apart.
  void split_line(const float* from, const int64_t* where, int64_t count, int64_t part_bytes, std::byte* out);
  // Of all that was split: false: it cannot be in parts, and what was written is of no use.
  bool fit() const;

 private:
  alignas(64) uint16_t most_[kStepElements] = {};  // the largest high parts of each word, their bits without the sign
};
// Of a tile of columns that were split, so many rows as they were to the last bit, `width` elements apart.
void join_columns(const std::byte* parts, int64_t width, int64_t depth, float* out);

}  // namespace toroid
