// Kernels of a program for GPUs that are to be in Triton (--device triton): all that its printer takes.
#pragma once

#include <string>
#include <vector>

#include "schedule/scheduled_graph.h"

namespace toroid {

// Marks them (schedule::GpuLoops::in_triton). The steps that stay as they are, each with the reason: "softmax_3: a scan".
std::vector<std::string> take_triton(std::vector<schedule::ScheduledGraph>& graphs);

}  // namespace toroid
