// What the stages of a row share: kept in the registers of its threads, or computed again in each stage.
#pragma once

#include "schedule/schedule.h"

namespace toroid::schedule {

inline constexpr int kMostRegisters = 64;  // of a thread, for what its row keeps

// Puts what the stashes keep in their place.
void compute_again(loop::ExprTable& exprs, Kernel& kernel);
// The same of what takes a few operations on what does not change along the row.
void compute_cheap_again(loop::ExprTable& exprs, Kernel& kernel);
// Loads that every element of some stage does, and an element of a later stage too, are kept instead, so that memory is read once. No more
// than `room` stashes.
void keep_loads(loop::ExprTable& exprs, Kernel& kernel, size_t room);
// The kernel with all that is kept computed again.
Kernel with_nothing_kept(loop::LoopProgram& program, const Kernel& kernel);
// 32-bit registers that an element takes.
int registers_of(const Kernel& kernel);

}  // namespace toroid::schedule
