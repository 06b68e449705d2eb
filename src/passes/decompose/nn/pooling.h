// The arguments of poolings, read by the operators and their gradients.
#pragma once

#include "formula/nn/pooling.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// kernel_size, stride, padding, dilation (where there is one) and ceil_mode.
formula::PoolGeometry pool_geometry(const Args& a);

// divisor_override, else count_include_pad.
formula::AverageCount average_count(const Args& a);

}  // namespace toroid
