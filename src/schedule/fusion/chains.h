// Convolutions that are done as one step, band by band of image rows (internal to schedule/).
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Of what a convolution makes and another reads: why the two are not in one step; "" if they are.
using ChainDecisions = std::map<BufferId, std::string_view>;

// Makes one ChainStep of convolutions that follow each other, where what passes between them is worth it.
ChainDecisions chain_convolutions(const loop::LoopProgram& program, std::vector<Step>& steps);

}  // namespace toroid::schedule
