// Products of rows with int4 numbers in tiles (isa/amx.h), the sums of each group with its scale.
#pragma once

#include <cstddef>
#include <cstdint>

namespace toroid {

// A tile of rows with a tile of columns, in some steps of the depth. Pieces of groups are multiplied apart: totals stay in registers, and
// each product passes the first-level cache once.
struct Int4Strip {
  // Numbers of BF16: [part][step] tiles of rows, parts `part_bytes` apart, and [step] tiles of columns.
  const std::byte* rows;
  int64_t parts, part_bytes;  // parts: one or three, whose sum the rows are
  const std::byte* columns;
  int64_t first_step, last_step;   // of the whole depth; rows and columns begin with the first one
  int64_t steps_of_group, groups;  // the last group has the rest of the depth
  bool is_last;                    // the depth ends here
  const float* scales;             // [group][scale, zero][column], whole
  const float* row_sums;           // [group][row], whole
  float* sums;                     // added to, unless first_step is 0
  int64_t row;                     // of sums, in elements
};
// sums[i][j] (+)= scale[j] * (row i * column j) of each group, and zero[j] * row_sums[i] once for each. Takes TileRegisters in scope.
void multiply_int4_groups(const Int4Strip& strip);

}  // namespace toroid
