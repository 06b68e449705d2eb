// Products of rows with int4 numbers in tiles (isa/amx.h), the sums of each group with its scale.
#pragma once

#include <cstddef>
#include <cstdint>

namespace toroid {

// A tile of rows with up to four of columns, in some steps of the depth. Groups are multiplied apart, with two tiles of columns at a time.
// Their products pass the first-level cache while the next ones are made, whose operands are loaded before: a load that follows a store
// to the same place of another page waits for it.
struct Int4Strip {
  // Numbers of BF16: [part][step] tiles of rows, parts `part_bytes` apart, and [step] tiles of columns, `column_bytes` apart.
  const std::byte* rows;
  int64_t parts, part_bytes;  // parts: one or three, whose sum the rows are
  const std::byte* columns;
  int64_t column_tiles, column_bytes;
  int64_t first_step, last_step;   // of the whole depth; rows and columns begin with the first one
  int64_t steps_of_group, groups;  // the last group has the rest of the depth
  bool is_last;                    // the depth ends here
  const float* scales;             // of each tile of columns, `scales_row` apart: [group][scale, zero][column], whole
  int64_t scales_row;
  const float* row_sums;  // [group][row], whole; null where the numbers have no zero points
  float* sums;            // [row][kRow]; added to, unless first_step is 0

  static constexpr int64_t kRow = 64;
};
// sums[i][j] (+)= scale[j] * (row i * column j) of each group, and zero[j] * row_sums[i] once for each. Takes TileRegisters in scope.
void multiply_int4_groups(const Int4Strip& strip);

}  // namespace toroid
