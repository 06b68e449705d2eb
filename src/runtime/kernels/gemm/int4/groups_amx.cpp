#include "runtime/kernels/gemm/int4/groups_amx.h"

#include "base/language.h"

#ifdef TOROID_KNOWS_AMX
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/machine/machine.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/emulated_amx.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

// Steps of one group.
struct Int4Piece {
  int64_t group, first, steps;
  bool ends_group;
};
TOROID_INLINE Int4Piece piece_from(const Int4Strip& strip, int64_t step) {
  const int64_t group = std::min(step / strip.steps_of_group, strip.groups - 1);
  const bool is_last_group = group + 1 == strip.groups;
  const int64_t end = is_last_group ? strip.last_step : (group + 1) * strip.steps_of_group;
  const int64_t last = std::min(end, strip.last_step);
  return {group, step, last - step, last == end && (!is_last_group || strip.is_last)};
}

// A piece in a pair of tiles of columns.
struct Int4Place {
  Int4Piece piece;
  int64_t column, last_column;
};
TOROID_INLINE int64_t end_of_pair(const Int4Strip& strip, int64_t column) { return std::min(column + 2, strip.column_tiles); }
TOROID_INLINE Int4Place first_place(const Int4Strip& strip) { return {piece_from(strip, strip.first_step), 0, end_of_pair(strip, 0)}; }
// To the next one; false where there is none.
TOROID_INLINE bool advance(const Int4Strip& strip, Int4Place& at) {
  at.column = at.last_column;
  if (at.column == strip.column_tiles) {
    const int64_t next = at.piece.first + at.piece.steps;
    if (next == strip.last_step) return false;
    at.piece = piece_from(strip, next);
    at.column = 0;
  }
  at.last_column = end_of_pair(strip, at.column);
  return true;
}

#ifdef TOROID_KNOWS_AMX
namespace native_groups {
#define TOROID_TARGET TOROID_AVX512_AND("amx-tile,amx-bf16")
#define TOROID_OF_TILE_ROWS _Pragma("GCC unroll 16")
#include "runtime/kernels/gemm/int4/groups_amx_loop.inc"
#undef TOROID_OF_TILE_ROWS
#undef TOROID_TARGET
}  // namespace native_groups
#endif

#include "runtime/kernels/isa/emulated_amx.inc"
namespace emulated_groups {
#define TOROID_TARGET
#define TOROID_OF_TILE_ROWS
#include "runtime/kernels/gemm/int4/groups_amx_loop.inc"
#undef TOROID_OF_TILE_ROWS
#undef TOROID_TARGET
}  // namespace emulated_groups

#ifndef TOROID_KNOWS_AMX
namespace native_groups = emulated_groups;  // never chosen
#endif

}  // namespace

void multiply_int4_groups(const Int4Strip& strip) { machine().isa.amx ? native_groups::multiply(strip) : emulated_groups::multiply(strip); }

}  // namespace toroid
