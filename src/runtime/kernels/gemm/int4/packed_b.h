// Int4 weights as products read them, and the loops that do.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernels/gemm/partition.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

// Tiles of 16 columns. A tile has the scales and zero points of its groups, [group][scale, zero][column], then its numbers: a word of each
// column has eight that follow each other in the depth, the first in its lowest bits. What is missing is 0.
struct Int4Matrix {
  int64_t k, n, group, groups;  // group: numbers of each but the last, which has the rest
  const float* data;
  // Is each zero point minus a scale times a whole number from 0 to 16? Numbers without it are whole as well.
  bool has_whole_zeros = false;

  static constexpr int64_t kWordNumbers = 8;
  int64_t steps() const { return steps_of(k); }
  int64_t tile_size() const { return (2 * groups + steps() * (kStepElements / kWordNumbers)) * kTileSide; }  // in words
  int64_t size() const { return toroid::tiles_of(n) * tile_size(); }
  int64_t group_of(int64_t row) const { return std::min(row / group, groups - 1); }
  const float* scales(int64_t tile, int64_t group) const { return data + tile * tile_size() + 2 * group * kTileSide; }
  const float* zeros(int64_t tile, int64_t group) const { return scales(tile, group) + kTileSide; }
  const uint32_t* words(int64_t tile) const { return reinterpret_cast<const uint32_t*>(scales(tile, groups)); }
};

struct RowSum {
  float value, magnitude;  // magnitude: of the elements' magnitudes
};
struct Int4Loops {
  static constexpr int64_t kMostRows = 4;
  RowSum (*sum)(const float* row, int64_t count);
  void (*widen_rows)(const Int4Matrix& b, int64_t tile, Range rows, float* out, int64_t width);
  void (*multiply_rows[kMostRows])(const Int4Matrix& b, int64_t tile, const float* const* rows, const float* group_sums, float* out,
                                   int64_t out_row);
};
const Int4Loops& int4_loops(VectorSet set = vector_set());

// What Int4Matrix::has_whole_zeros says, of these columns of a tile.
bool has_whole_zeros(const Int4Matrix& b, int64_t tile, int64_t columns);

// On machines with tiles of bfloat16: steps of a tile of columns as such, scaled, or the numbers alone, without zero points that are whole.
void widen_int4_tiles(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to);
void widen_int4_numbers(const Int4Matrix& b, int64_t tile, Range steps, std::byte* to);

}  // namespace toroid
