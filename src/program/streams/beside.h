// Collective operations on a GPU that run beside the kernels behind them, on a stream of their own:
//
//   step 3 product             |--3--|
//   step 4 all_reduce beside          |----4----|            it waits for all that was started before it
//   step 5 product                    |--5--|
//   step 6 norm awaits 1                         |--6--|     it reads what the first of them has made
//
// They keep their order among each other, so a step that waits for one has all those before it behind itself.
//
// Memory: what an operation reads and writes another step must not write meanwhile. So its temporaries live until a step waits for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/module.h"

namespace toroid::program {

// May the step run beside others? A collective operation whose operands are where they stay for all of the call.
bool can_be_beside(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module, const Function& function, const Step& step);

// What is wrong with the steps beside others of the main function; none: nothing.
std::optional<std::string> fault_of_beside(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module);

// Of the main function, behind add_branches: all collective operations that have something to run beside.
void add_beside(const std::vector<schedule::ScheduledGraph>& graphs, Module& module);

}  // namespace toroid::program
