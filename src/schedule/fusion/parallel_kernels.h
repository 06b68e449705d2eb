// Small kernels that are started together (internal to schedule/).
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Among kernels that follow each other, makes one ParallelKernels of the small ones that do not wait for each other, where they are
// enough work for several threads together: the updates of a model's many small parameters. The least wait decides their order;
// larger kernels and other steps stay where they are.
void launch_together(std::vector<Step>& steps);
// Of kernels and scatters that do not wait for each other.
ParallelKernels as_group(std::vector<Step> steps);

}  // namespace toroid::schedule
