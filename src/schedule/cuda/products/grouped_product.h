// Products by groups, of a mixture's experts, by one kernel on a GPU (codegen/cuda/prelude/products/grouped_products.inc): which calls it
// takes, and in what tiles. Where groups end only the device knows, so nothing waits for it.
#pragma once

#include <string_view>

#include "schedule/schedule.h"

namespace toroid::schedule {

// CallStep::choice; without one the runtime computes the call, on the host.
inline constexpr std::string_view kGroupedProduct = "grouped";

// Of 16-bit floats, by rows, [M, K] x [G, K, N], or by the depth, [M, K] x [K, N], as gradients of matrices are. What is contiguous begins
// at multiples of 16 bytes: rows of x, and rows or columns of matrices; by the depth columns of x and rows of y. `inputs_are_aligned`: to
// them; what the program itself allocates is.
std::string_view grouped_choice(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned);

struct GroupedTiles {
  int rows, columns, stages;
  int threads() const { return 2 * rows; }
  int64_t shared_bytes() const;
};
// `by_depth`: each group has all rows.
GroupedTiles grouped_tiles(sym::Expr rows, sym::Expr groups, sym::Expr columns, bool by_depth);
sym::Expr blocks_of(const GroupedTiles& tiles, sym::Expr rows, sym::Expr groups, sym::Expr columns, bool by_depth);

}  // namespace toroid::schedule
