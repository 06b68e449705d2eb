// What a step of a program is made of, as text.
#pragma once

#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::cli {

// with_choice: also which implementation was chosen.
void print_step(const Program& program, const loop::LoopProgram& loops, const schedule::Step& step, size_t number, bool with_choice);

}  // namespace toroid::cli
