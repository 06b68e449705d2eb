// Matrix products of bfloat16 or float16, both operands alike, with sums in float32.
#pragma once

#include "runtime/kernels/registry/plan.h"

namespace toroid {

std::unique_ptr<const KernelPlan> plan_half_widened(const KernelCall& call);  // rows and panels as float32
std::unique_ptr<const KernelPlan> plan_bf16_pairs(const KernelCall& call);    // of BF16, where there are bf16_dot_microkernels()
std::unique_ptr<const KernelPlan> plan_bf16_tiles(const KernelCall& call);    // of BF16, where has_amx()

}  // namespace toroid
