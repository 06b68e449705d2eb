#include "schedule/cpu/grid.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/axes.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

// Several rows of sums, and kept values, have room in the first-level cache if blocks are narrow.
bool has_wide_blocks(const Kernel& kernel) {
  constexpr size_t kMostSums = 4;
  return !kernel.finish.empty() && kernel.stashes.empty() && kernel.accumulators.size() <= kMostSums &&
         std::all_of(kernel.stages.begin(), kernel.stages.end(), [](const Stage& stage) { return stage.turns == 1; });
}

}  // namespace

Grid grid_of(const Kernel& kernel) {
  if (!kernel.halide.empty()) return {.tasks = 1, .work_per_task = product_of_extents(kernel.outer) * product_of_extents(kernel.inner)};
  Grid grid;
  grid.axes = kernel.outer;
  grid.work_per_task = 1;
  if (kernel.vector == VectorAlong::Outer) {
    const sym::Expr columns = extent(kernel.outer.back());
    grid.axes.pop_back();
    grid.block_columns = kernel.tile ? kTileSide : has_wide_blocks(kernel) ? kWideVectorBlock : kVectorBlock;
    grid.blocks = sym::ceil_div(columns, grid.block_columns);
    grid.work_per_task = sym::min(columns, grid.block_columns);
  }
  if (kernel.tile) {
    std::erase(grid.axes, *kernel.tile);
    grid.tiles = sym::ceil_div(extent(*kernel.tile), kTileSide);
  }
  grid.tasks = grid.blocks * grid.tiles;
  for (sym::Expr axis : grid.axes) grid.tasks = grid.tasks * extent(axis);
  for (sym::Expr axis : kernel.inner) grid.work_per_task = grid.work_per_task * extent(axis);
  if (kernel.tile) grid.work_per_task = grid.work_per_task * sym::min(extent(*kernel.tile), kTileSide);
  return grid;
}

Grid grid_of(const ScanKernel& kernel) {
  return {.tasks = product_of_extents(kernel.outer), .work_per_task = extent(kernel.along), .axes = kernel.outer};
}

Grid grid_of(const loop::LoopProgram& program, const ScatterKernel& kernel) {
  Grid grid{.tasks = 1, .work_per_task = 1};
  if (!kernel.split) return grid;
  if (std::find(kernel.axes.begin(), kernel.axes.end(), kernel.split->index) != kernel.axes.end()) {
    grid.tasks = sym::max(1, extent(kernel.split->index));
    for (sym::Expr axis : kernel.axes) {
      if (axis != kernel.split->index) grid.work_per_task = grid.work_per_task * extent(axis);
    }
    return grid;
  }
  // Each task goes through all elements.
  const loop::Buffer& out = program.buffer(kernel.out);
  sym::Expr scattered = 1;
  for (sym::Expr axis : kernel.axes) scattered = scattered * extent(axis);
  grid.tasks = sym::max(1, out.sizes[kernel.split->dim]);
  grid.work_per_task = sym::max(1, sym::floor_div(sym::product(out.sizes) + scattered, grid.tasks));
  return grid;
}

Grid grid_of(const loop::LoopProgram& program, const Step& step) {
  if (const auto* kernel = std::get_if<Kernel>(&step)) return grid_of(*kernel);
  if (const auto* kernel = std::get_if<ScanKernel>(&step)) return grid_of(*kernel);
  const auto* scatter = std::get_if<ScatterKernel>(&step);
  TOROID_CHECK(scatter != nullptr, "'{}' is no kernel", name_of(step));
  return grid_of(program, *scatter);
}

}  // namespace toroid::schedule
