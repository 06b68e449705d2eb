// The ways in which a step of a GPU's program may be done: what tuning chooses from.
//
//   call linear_gelu { … tiles 128 by 192 stages 4 cluster 1 pingpong … }    =>   "128x192x4-pingpong", which it has; "128x128x5-pingpong", …, "library"
//
// A way is the step itself as it would be, so that its text says which it is, and is verified as any other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/planner.h"
#include "schedule/schedule.h"

namespace toroid::schedule {

struct Way {
  std::string name;  // of letters, digits and '-'; unique among the step's
  double seconds;    // by an estimate
  Step step;
};

// The first is the step as it is. One alone: there is nothing to choose. Of steps with sizes that are numbers; adds expressions to
// `program`. `with_cudnn`: may cuDNN do it (schedule/cuda/cudnn/cudnn_step.h)?
std::vector<Way> ways_of(loop::LoopProgram& program, const Step& step, TensorCores cores = TensorCores::Hopper, bool with_cudnn = false);

// "128x192x4-pingpong": rows, columns and stages, then what else they are.
std::string name_of(const GpuTiles& tiles);

// About how long the step takes on an H100, from what it moves and multiplies.
double seconds_of(const loop::LoopProgram& program, const Step& step);

}  // namespace toroid::schedule
