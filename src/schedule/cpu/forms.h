// Whether the stages of a kernel keep what several of them need or compute it again (internal to schedule/).
//
//   persistent                                                          looped
//   stage 1: stash0[j] = exp(x[row, j] - acc0);  acc1 = sum stash0[j]   acc1 = sum exp(x[row, j] - acc0)
//   stage 2: out[row, j] = stash0[j] * (1 / acc1)                       out[row, j] = exp(x[row, j] - acc0) * (1 / acc1)
//
// By an estimate of both (form_estimate.h) each value is kept or not. Where the two are close and the kernel is a large part of the
// program, the kernel gets both forms, and the first call finds out (runtime/program/form_choice.h). The other form is made from the
// finished kernel by putting the expression in the place of the stash, so that loops, lanes and the order of sums are the same in both.
#pragma once

#include "schedule/schedule.h"

namespace toroid::schedule {

// Less is not worth the time that it takes to compile a second form: elements that a kernel visits, and its share of the program's time,
// with all kernels of its kind.
inline constexpr int64_t kLeastWork = 1 << 16;
inline constexpr double kLeastShare = 0.1;

// The forms of all kernels whose loops are chosen, and what is fetched in each (fetch_rows.cpp). Only a kernel that is a step of its own
// may get two.
void choose_forms(loop::LoopProgram& program, std::vector<Step>& steps, Forms forms);

}  // namespace toroid::schedule
