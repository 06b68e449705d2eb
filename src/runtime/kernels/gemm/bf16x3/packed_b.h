// The right side of products in parts (runtime/kernels/gemm/bf16x3/gemm.h), packed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/span.h"
#include "runtime/kernels/gemm/bf16x3/split.h"
#include "runtime/kernels/gemm/macrokernel.h"

namespace toroid {

// The right side: panels of 64 columns, each a line that says whether it is in parts, and its tiles, or, where it cannot be, its
// rows as PackedB has them.
struct PackedBf16x3 {
  static constexpr int64_t kPanelTiles = 4, kPanelColumns = kPanelTiles * kTileSide;
  static constexpr int64_t kHeader = kCacheLine;  // floats

  int64_t depth, columns;
  const float* data;

  int64_t panels() const { return panels(columns); }
  int64_t columns_of(int64_t panel) const { return std::min(kPanelColumns, columns - panel * kPanelColumns); }
  int64_t tiles_of(int64_t panel) const { return toroid::tiles_of(columns_of(panel)); }
  const float* panel(int64_t panel) const { return data + panel * panel_size(depth, kPanelTiles); }
  bool is_in_parts(int64_t panel) const { return *this->panel(panel) != 0; }
  int64_t tile_bytes() const { return steps_of(depth) * kPartsBytes; }
  const std::byte* tile(int64_t panel, int64_t tile) const {
    return reinterpret_cast<const std::byte*>(this->panel(panel) + kHeader) + tile * tile_bytes();
  }

  static int64_t panels(int64_t columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }
  // Floats of a panel, and of the whole.
  static int64_t panel_size(int64_t depth, int64_t tiles) {
    return kHeader + tiles * steps_of(depth) * kPartsBytes / int64_t{sizeof(float)};
  }
  static int64_t size(int64_t depth, int64_t columns) {
    return panels(columns) * kHeader + panel_size(depth, toroid::tiles_of(columns)) - kHeader;
  }
};

// Writes the panels [first, last) of such a matrix; `out` is where the first of them goes.
void pack_bf16x3(const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out);
// Filters of a convolution as they lie.
struct FiltersAsTheyLie {
  const float* data;             // the first element of the first channel of the first filter
  int64_t column, channel;       // from filter to filter and from channel to channel, in floats
  Span<const int64_t> elements;  // from a channel's first to each: 0, 1, … in memory's order, or other places, as of flipped filters
};
// One panel of them: row element * channels + channel of what is packed. False: it cannot be in parts, and what was written is of no use.
bool pack_filters_bf16x3(const FiltersAsTheyLie& filters, int64_t channels, int64_t columns, float* out);
void pack_bf16x3(RuntimePool& pool, const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out);

}  // namespace toroid
