// Panels of a product in parts that stay in the second-level cache while rows pass by, in strips of two tiles; while one is multiplied,
// vectors split the next.
#pragma once

#include <algorithm>
#include <vector>

#include "base/span.h"
#include "runtime/kernels/gemm/bf16x3/microkernel.h"
#include "runtime/kernels/gemm/bf16x3/packed_b.h"
#include "runtime/kernels/gemm/macrokernel.h"

namespace toroid {

class PassingStrips {
 public:
  static constexpr int64_t kTiles = 2, kRows = kTiles * kTileSide;
  // Panels that stay near with so many steps; rows and results pass through the rest of the cache.
  static int64_t most_panels(int64_t steps);

  // The product of `rows`, each with `elements`, and `columns` of the whole, which begin with a panel; its depth comes in so many parts.
  // `first_row`: of the result. All but numbers are to stay. One at a time in a thread.
  PassingStrips(const RowElements& elements, Span<const float* const> rows, Range columns, int64_t depths, int64_t first_row,
                const ProductOutput& out);

  // With the steps of the i-th part of the depth, in turn: as many as part_of has. `right` has just these, and our columns are its panels
  // from `first_panel` on, which the first strip fetches, a pair of tiles ahead, if they are not near yet.
  void multiply(int64_t depth, const PackedBf16x3& right, int64_t first_panel, bool fetches = false);
  Range steps_of_part(int64_t depth) const { return part_of(elements_.steps(), depth, depths_); }
  // At the end: multiplies what cannot be in parts. make(panel): a panel of these columns as it is.
  template <class Make>
  void finish(const Make& make) {
    const bool has_plain_strip = std::find(is_plain_strip_.begin(), is_plain_strip_.end(), true) != is_plain_strip_.end();
    for (int64_t panel = 0; panel < panels_; ++panel) {
      if (has_plain_strip || is_plain_panel_[at(panel)]) multiply_plain(panel, make(panel));
    }
  }

 private:
  struct Sums {
    float* data;
    int64_t row;
  };

  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  int64_t pairs() const { return divide_up(tiles_of(columns_.size()), 2); }
  Range rows_of(int64_t strip) const { return {strip * kRows, std::min((strip + 1) * kRows, static_cast<int64_t>(rows_.size()))}; }
  Span<const float* const> pointers_of(int64_t strip) const { return rows_.subspan(at(strip * kRows), at(rows_of(strip).size())); }
  Range columns_of(Range panels) const;
  bool goes_directly(int64_t strip, int64_t panel) const;
  void begin(int64_t strip, int64_t depth);
  void multiply_strip(int64_t strip, int64_t depth, const PackedBf16x3& right, int64_t first_panel, const std::byte* rows, bool fetches);
  void multiply_plain(int64_t panel, const PackedB& columns) const;

  const RowElements& row_elements_;
  const StepElements elements_;
  const Span<const float* const> rows_;
  const Range columns_;
  const int64_t depths_, first_row_;
  const ProductOutput& out_;
  const int64_t strips_, panels_;
  const int64_t strip_bytes_;
  std::byte* split_;        // two strips
  float* waiting_;          // sums of the parts of the depth so far: [strip][two tiles of columns][row][column]
  float* finished_;         // those of a strip and a panel: [row][column], while they are in the first-level cache
  bool is_second_ = false;  // of the strips in `split_`, the last one begun
  RowsToSplit next_;        // what is left of that one
  std::vector<bool> is_plain_strip_, is_plain_panel_;  // which cannot be in parts, so far as is known
};

}  // namespace toroid
