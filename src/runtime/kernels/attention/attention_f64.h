// Attention in float64.
#pragma once

#include "runtime/kernels/registry/plan.h"

namespace toroid {

// Operands as of attention in float32 (choices.cpp); the mask is of Bool or float64.
std::unique_ptr<const KernelPlan> plan_attention_f64(const KernelCall& call);

}  // namespace toroid
