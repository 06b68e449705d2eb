// What the compiler takes for granted of schedules: for those that did not come from it, but from a text.
//
// Every failure is an Error{InvalidModel} that says which rule is broken.
#pragma once

#include <span>

#include "schedule/schedule.h"

namespace toroid::schedule {

// A kernel, its finishes and other forms: axes, stages, what is accumulated and kept before it is used, what is read and written.
// `products`: the results that an epilogue takes.
void verify(const loop::LoopProgram& program, const Kernel& kernel, std::span<const BufferId> products = {});
void verify(const loop::LoopProgram& program, const Step& step, std::span<const Graph> subgraphs);
// Steps write buffers that are theirs to write, each is written before it is read, and what runs once reads constants only.
void verify_order(const Schedule& schedule);

}  // namespace toroid::schedule
