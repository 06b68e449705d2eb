// When temporaries begin and end (internal to schedule/).
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Of the temporaries that steps write or read, by first_step.
std::vector<Lifetime> lifetimes(const loop::LoopProgram& program, const std::vector<Step>& steps);

}  // namespace toroid::schedule
