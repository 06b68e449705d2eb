// Kernels of a program for a processor that are to be Halide pipelines (--device halide): all that its printer takes.
#pragma once

#include <string>
#include <vector>

#include "schedule/scheduled_graph.h"

namespace toroid {

// Marks them (schedule::Kernel::halide). The steps that stay as they are, each with the reason: "softmax_3: a scan".
std::vector<std::string> take_halide(std::vector<schedule::ScheduledGraph>& graphs, const std::string& autoscheduler);

// The kernel in Halide; or why not. Of its forms, those with the same results, this one alone is left.
std::variant<schedule::Kernel, std::string> in_halide(const loop::LoopProgram& program, schedule::Kernel kernel,
                                                      const std::string& autoscheduler);

}  // namespace toroid
