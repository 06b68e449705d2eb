// Small kernels of a GPU that become one launch (internal to schedule/).
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Makes one ParallelKernels of small kernels and scatters that do not wait for each other: what one of them alone leaves idle of the device
// the others use, and a launch costs about what they do. A kernel comes up to those before it, or they wait for it, where no step between
// them depends on what moves. What reads a state stays before what writes its new value, so that this may be in the same memory.
void group_launches(const loop::LoopProgram& program, std::vector<Step>& steps);

}  // namespace toroid::schedule
