// What graph passes weigh, answered with the estimates by which the runtime chooses its kernels.
#pragma once

#include "passes/costs.h"

namespace toroid {

// Those of one thread of a machine with this one's instructions and a last cache of 8 MB: a program does not depend on how many threads
// or how much cache the machine that compiles it has.
PassCosts pass_costs();
// On a GPU products of few rows take as long as reading their weights, and each costs a start. Others are weighed as above.
PassCosts gpu_pass_costs();

}  // namespace toroid
