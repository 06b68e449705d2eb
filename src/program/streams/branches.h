// Chains of launches on a GPU that do not wait for each other, and of which none fills the device: each chain is a branch, with a stream of
// its own in the graph of a call.
//
//   step 3 conv_a on branch 1      |--a--|-------c-------|
//   step 4 conv_b on branch 2      |-----b-----|
//   step 5 conv_c on branch 1                            |--d--|      which reads what b and c made
//   step 6 conv_d
//
// Steps one behind the other that have branches are a region: its branches begin behind the step before it, and the step behind it waits
// for all of them. Started one by one, steps keep their order.
//
// Memory: what a step of one branch no longer needs another branch must not write meanwhile. So temporaries that begin or end in a region
// live from its first step, or to its last one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/module.h"

namespace toroid::program {

inline constexpr uint32_t kMostBranches = 4;

// May the step be in a branch? A launch of kernels that keep nothing in the device's memory from block to block, with known sizes.
bool can_be_on_branch(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const Function& function,
                      const Step& step);

// What is wrong with the branches of the main function; none: nothing.
std::optional<std::string> fault_of_branches(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module);

// Of the main function, where estimates say that it is worth it: each region takes a few microseconds less.
void add_branches(const std::vector<schedule::ScheduledGraph>& graphs, Module& module);

}  // namespace toroid::program
