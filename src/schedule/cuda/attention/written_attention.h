// Attention whose scores the program computes (passes/attention/write_scores.h), as a kernel of the program's own on tensor cores.
//
// Blocks of threads have 128 queries, 64 of the widest rows, and go through the keys in tiles
// (codegen/cuda/prelude/attention/written_scores.inc). Where some scores do not count, a kernel before it writes a table of the tiles of
// 128 x 128 of which none, some or all do.
#pragma once

#include "schedule/cuda/attention/attention_kernel.h"

namespace toroid::schedule {

inline constexpr int kTableSide = 128, kTableThreads = 256;

bool is_written_attention(const CallStep& step);
// Do some scores not count? Then the table is behind the step's result, or is its fourth operand, where a step before it made it.
inline bool has_table(const CallStep& step) { return step.call.scores && step.call.scores->visible; }
inline bool makes_table(const CallStep& step) { return has_table(step) && step.call.operands.size() == 3; }
// Has the step read the table of an earlier one with the same condition, if there is one.
void share_table(const loop::LoopProgram& program, std::span<const Step> before, CallStep& step);
// GpuTiles of its kernel: rows, keys as columns, and whether it is Hopper's as `ping_pong`.
GpuTiles written_attention_tiles(const loop::LoopProgram& program, const CallStep& step, bool hopper, bool inputs_are_aligned);
// The kernel that other GPUs have, for the emulation, which has no Hopper.
CallStep without_hopper(const loop::LoopProgram& program, CallStep step);
AttentionKernel written_attention_kernel(const loop::LoopProgram& program, const CallStep& step);
CudaGrid written_attention_grid(const loop::LoopProgram& program, const CallStep& step);

// The table's sizes: batches and heads for which it differs, rows, tiles of keys.
std::array<sym::Expr, 4> table_sizes(const loop::LoopProgram& program, const CallStep& step);
CudaGrid table_grid(const loop::LoopProgram& program, const CallStep& step);

}  // namespace toroid::schedule
