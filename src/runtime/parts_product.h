// Products of F32 in tiles of BF16 (float_parts.h): what product.h computes with vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/few_rows.h"
#include "runtime/float_parts.h"
#include "runtime/product.h"

namespace toroid {

// The right side: panels of 64 columns, each a line that says whether it is in parts, and its tiles, or, where it cannot be, its
// rows as PackedMatrix has them.
struct PartsMatrix {
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
void pack_parts(const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out);
void pack_parts(RuntimePool& pool, const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out);

// As those of product.h.
void multiply_rows(const PartsMatrix& b, int64_t first, int64_t last, const RowElements& elements,
                   std::span<const float* const> rows, int64_t first_row, const ProductOutput& out, const Fetching& fetching = {});
void multiply(RuntimePool& pool, int64_t m, const Matrix& a, const PartsMatrix& b, int64_t first_panel, int64_t last_panel,
              const ProductOutput& out);

// The left side of a product, rows that are in parts: tiles of 16 of them, `tile_bytes` apart, each with its steps at `offsets`.
struct PartsRows {
  const std::byte* data;
  int64_t tiles, tile_bytes;
  const int64_t* offsets;

  const std::byte* tile(int64_t i) const { return data + i * tile_bytes; }
};
// sums[i * row + j] (+)= the product of the tiles [first, last) of the rows with the columns of a panel that is in parts, in the
// steps [first, last) of the depth; sums begin with the first of these tiles, and the rows' first offset is that of the first of
// these steps. What comes next of the right side is fetched meanwhile, by all tiles of rows together: the next columns, and at the
// end of the panel the first of another, from a step of theirs on. Takes TileRegisters in scope.
struct PanelTask {
  int64_t panel;
  Range steps;
  bool add;
  bool fetches;
  int64_t next_panel, next_step;
};
void multiply_panel(const PartsMatrix& b, const PanelTask& task, const PartsRows& rows, Range tiles, float* sums,
                    int64_t row = PartsMatrix::kPanelColumns);

constexpr double kCyclesToSplit = 0.6;  // an element of a row, with the write to the second-level cache
// Tiles of rows that stay in a part of the second-level cache, with this depth or as much of it as is multiplied at a time.
int64_t most_row_tiles(int64_t depth);

// Whether a product is done sooner in parts, by an estimate.
bool pays_in_parts(const ProductToChoose& product, double cycles_to_split = kCyclesToSplit);

}  // namespace toroid
