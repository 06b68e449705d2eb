// Which implementation of a library kernel computes each call of a program.
#pragma once

#include <string>
#include <vector>

#include "schedule/scheduled_graph.h"
#include "tune/tuner.h"

namespace toroid {

// Asks the tuner for each call with fixed sizes whose kernel has several implementations, and notes its answer in CallStep::choice. A chain
// is asked for as a whole; where its convolutions are better done one after the other, they become steps of their own, each of which is
// asked for then. Other calls decide when they are made. Throws as Tuner::choose does.
void choose_kernels(std::vector<schedule::ScheduledGraph>& graphs, const Program& program, tune::Tuner& tuner);

// What computes a call that no choice was asked for, and why: "attention, which chooses when it is called, since …".
std::string why_no_choice(const Program& program, const loop::LoopProgram& loops, const schedule::CallStep& step);

}  // namespace toroid
