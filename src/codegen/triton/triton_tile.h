// The tile of a program in Triton: so many rows (combinations of a kernel's outer axes) by elements (of its inner ones).
#pragma once

#include <string_view>
#include <vector>

#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

struct TritonTile {
  sym::Expr rows, length;  // of the whole kernel
  int64_t row_count = 1, width = 1;
  bool in_squares = false;                          // rows and elements are axes of a transpose, each of which programs share
  bool is_looped = false;                           // a program goes through its rows in pieces, else it has them whole
  bool fills_rows = false, fills_elements = false;  // each tile, so that no mask is needed
  std::string_view index_type = "tl.int64";
};

// `in_squares`: see TritonTile. Throws NotInTriton.
TritonTile triton_tile(const schedule::Kernel& kernel, bool in_squares);

// Gives the tile indices of 32 bits where all that is computed of places and indices fits them. `has_sizes`: the kernel takes symbols.
// `values`, `places`: what is computed beside the stages', and where it is stored.
void narrow_indices(TritonTile& tile, const loop::ExprTable& exprs, const schedule::Kernel& kernel, bool has_sizes,
                    std::vector<loop::ExprId> values, std::vector<sym::Expr> places);

// Does it accumulate the place of the best element?
bool gives_place(const schedule::Kernel& kernel, const schedule::Accumulate& accumulate);

// Of a program.
int triton_warps(const schedule::Kernel& kernel, const TritonTile& tile);

// Programs that fill a device.
inline constexpr int64_t kTritonPrograms = 264;

}  // namespace toroid::codegen
