// Norms and the like before products of few rows on a GPU: each block of the product makes the left side itself.
//
// A small kernel between two products costs its start and its end, a microsecond and more, while a row of some thousand elements is made
// in less by a block that waits for its weights anyway. So a kernel of one row becomes the prologue of the products that read its result,
// where only these do: the result is in their shared memory, and nowhere else.
//
//   kernel rms_norm                     call rms_norm_linear {
//   call linear                =>         q = matmul() on norm, w   tiles …
//   call linear                           prologue rms_norm {…}
//                                       }
//                                       call rms_norm_linear …
#pragma once

#include "schedule/schedule.h"

namespace toroid::schedule {

// The steps' products have their tiles.
void make_prologues(const loop::LoopProgram& program, std::vector<Step>& steps);
// May the step have the prologue that it has?
bool is_product_with_prologue(const loop::LoopProgram& program, const CallStep& step);

}  // namespace toroid::schedule
