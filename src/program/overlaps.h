// Which launches on a GPU start while the one before them ends (schedule/cuda/launches/overlap.h).
//
//   launch 3 … lets next start
//   launch 4 … starts early lets next start
//   launch 5 … starts early
//   call matmul …                              the library's: launch 5 lets nobody start
//
// A pair of launches does, of which one follows the other in the function, on the same branch, with nothing between them, the second of
// which waits for nothing else (beside.h), and both are kernels of the program's own that can. So what starts early always waits for a
// kernel that it is known to follow, by induction for all before that; and whatever else is on the stream (the library's kernels, copies,
// numbers that are read) follows a kernel that lets nobody start, or is an end.
#pragma once

#include "program/module.h"

namespace toroid::program {

// The launch's part in this; null for an instruction that is no launch and no call.
schedule::Overlap* overlap_of(Instruction& instruction);
const schedule::Overlap* overlap_of(const Instruction& instruction);

// May the launch be of such a pair, and load ahead: a product of few rows its right side, attention of few queries its keys and values but
// for one row (late_row.h)? In functions of calls: what runs once does not overlap.
bool can_overlap(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const loop::LoopProgram& loops,
                 const Instruction& instruction);
bool can_load_ahead(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const loop::LoopProgram& loops,
                    const Instruction& instruction);

// Of the functions of calls.
void add_overlaps(const std::vector<schedule::ScheduledGraph>& graphs, Module& module);

}  // namespace toroid::program
