// The gradient of a convolution's filters, "backward weights":
//
//   dw[k, c, tap] = sum over images n and positions p of dy[n, k, p] * x[n, c, p * stride + tap * dilation - padding]
//
// is a product for each tap whose depth are all positions. Both sides are packed once for all taps (positions.h): a tap's right side begins
// some positions further on.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/kernels/registry/plan.h"

namespace toroid {

// "library.convolution.backward_weights": inputs are x [N, groups * C, …] and dy [N, groups * K, …], any strides; the output is dw
// [groups * K, C, taps…], contiguous. All F32, of one or two spatial dims. Numbers: the groups, then stride, padding and dilation of each
// spatial dim. For one number of threads the result is the same in each call.
std::unique_ptr<const KernelPlan> plan_backward_weights(const KernelCall& call);

}  // namespace toroid
