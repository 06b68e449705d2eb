// Where the host waits for a GPU, in a program with tensors on both.
//
// Copies are started in their order with the GPU's kernels, and the host goes on. It waits before a step of its own that reads what a copy
// from the GPU writes, and before one that may write where such a result had its place in the arena. What it copies to the GPU has been read
// when the copy is started (runtime/cuda/device.h), so its steps may write over that at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/module.h"

namespace toroid::program {

// Sets Step::waits in the main function. After branches.h, which lengthens lifetimes.
void add_waits(const std::vector<schedule::ScheduledGraph>& graphs, Module& module);
// What is wrong with the module's: for one that was read from a text.
std::optional<std::string> fault_of_waits(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module);

}  // namespace toroid::program
