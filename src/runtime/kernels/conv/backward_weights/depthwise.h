// Backward weights where each group has one channel and one filter.
#pragma once

#include <memory>

#include "runtime/kernels/conv/backward_weights/positions.h"
#include "runtime/kernels/registry/plan.h"

namespace toroid {

// Vectors of channels, whose products with the elements of a filter's row are summed in registers along a row of results, and rows in
// float64. Images whose channels do not follow each other are copied.
std::unique_ptr<const KernelPlan> plan_depthwise_backward_weights(const BackwardWeightsShape& shape, int threads);

}  // namespace toroid
