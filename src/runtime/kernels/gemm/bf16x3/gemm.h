// Products of F32 in tiles of BF16 (split.h): what macrokernel.h computes with vectors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/span.h"
#include "runtime/kernels/gemm/bf16x3/packed_b.h"
#include "runtime/kernels/gemm/macrokernel.h"

namespace toroid {

// As those of macrokernel.h.
void multiply_rows(const PackedBf16x3& b, int64_t first, int64_t last, const RowElements& elements, Span<const float* const> rows,
                   int64_t first_row, const ProductOutput& out, const Fetching& fetching = {});
Cut partition_of(int64_t threads, int64_t m, const PackedBf16x3& b);
void multiply(RuntimePool& pool, const Cut& cut, int64_t m, const Matrix& a, const PackedBf16x3& b, Range panels, const ProductOutput& out);

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
void multiply_panel(const PackedBf16x3& b, const PanelTask& task, const PartsRows& rows, Range tiles, float* sums,
                    int64_t row = PackedBf16x3::kPanelColumns);

constexpr double kCyclesToSplit = 0.6;  // an element of a row, with the write to the second-level cache
// Tiles of rows that stay in a part of the second-level cache, with this depth or as much of it as is multiplied at a time.
int64_t most_row_tiles(int64_t depth);

struct GemmShape {
  int64_t m, n, k;
  bool has_packed_right;  // from earlier calls
  int64_t threads;
};
// The more threads, the less tiles gain over vectors: how many times as long as on one or two threads they take beside these. 24 pairs of
// linear layers of 128 rows, 768 to 3,072 and back, took on a Xeon of the fifth generation (16 virtual processors, other work beside them),
// in ms in tiles and in vectors: 146 and 201 on one thread, 71 and 77 on four, 32 and 28 on sixteen.
double slowdown_of_parts(int64_t threads);
// The time that a product takes in parts, as a share of the time that it takes in vectors of float32, by an estimate.
double time_as_bf16x3(const GemmShape& product, double cycles_to_split = kCyclesToSplit);
// Whether it is done sooner in parts on this machine.
bool pays_as_bf16x3(const GemmShape& product, double cycles_to_split = kCyclesToSplit);

}  // namespace toroid
