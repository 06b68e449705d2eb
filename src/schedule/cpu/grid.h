// How a kernel's work is divided into tasks, which threads share.
#pragma once

#include "schedule/schedule.h"

namespace toroid::schedule {

// Elements along the vector axis that make one task when lanes run along an outer axis.
inline constexpr int64_t kVectorBlock = 512;
// Of sums over rows that are cut into blocks of rows too, so that tasks are many: such rows are often read whole, in the order of memory.
inline constexpr int64_t kWideVectorBlock = 1024;

struct Grid {
  sym::Expr tasks;          // independent pieces of work; 1 for a serial kernel
  sym::Expr work_per_task;  // elements touched
  // Of a Kernel: its tasks are the combinations of these. The first is the slowest.
  std::vector<sym::Expr> axes = {};  // one task for each value
  sym::Expr tiles = 1;               // of kTileSide rows of Kernel::tile
  sym::Expr blocks = 1;              // of block_columns elements along the vector axis
  int64_t block_columns = 0;         // 0: lanes do not run along an outer axis
};

Grid grid_of(const Kernel& kernel);
Grid grid_of(const ScanKernel& kernel);
Grid grid_of(const loop::LoopProgram& program, const ScatterKernel& kernel);
// Of a generated kernel's step.
Grid grid_of(const loop::LoopProgram& program, const Step& step);

}  // namespace toroid::schedule
