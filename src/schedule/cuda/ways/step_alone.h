// A step as a program of its own, so that the ways in which it may be done can be tried apart from the rest.
//
//   call linear_3 { y = matmul() on x[…], w[…] … }    =>    graph(in0: bf16[8388608], in1: bf16[1048576]) -> out0: bf16[2097152]
//
// What the step reads, the program gets, and what it writes, it gives; as rows of elements, for positions are the step's own. Weights too
// are inputs.
#pragma once

#include <string>
#include <vector>

#include "schedule/scheduled_graph.h"

namespace toroid::schedule {

struct StepAlone {
  Program program;  // whose graph only says what goes in and out
  std::vector<ScheduledGraph> graphs;
};

// Are all its sizes numbers, and does it depend on nothing but tensors?
bool can_be_alone(const loop::LoopProgram& loops, const Step& step);
// Axes stay those of `program`, which lives as long.
StepAlone step_alone(const Program& program, const loop::LoopProgram& loops, const Step& step);

// What the step computes, with none of its names: equal for equal steps. The tiles of a call are left out.
std::string text_without_names(const loop::LoopProgram& loops, const Step& step);

}  // namespace toroid::schedule
