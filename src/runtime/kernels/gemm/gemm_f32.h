// Matrix products in float32: the family "matmul.f32", and products inside other kernels, choose among the same algorithms.
#pragma once

#include "runtime/kernels/gemm/gemm.h"
#include "runtime/kernels/registry/plan.h"
#include "runtime/kernels/registry/registry.h"

namespace toroid {

// One product, and how many of the same. Strides in elements.
struct GemmProblem {
  int64_t batches = 1, m = 0, n = 0, k = 0;
  bool b_is_packed = false;         // by earlier calls: it is a constant
  int64_t a_column = 1;             // stride from column to column of the left side
  int64_t b_row = 1, b_column = 1;  // strides of the right side from row to row and from column to column
};

// By the algorithm of the lowest estimate, and that estimate.
double estimate_gemm_f32_s(const GemmProblem& gemm, const MachineModel& machine);
Gemm plan_gemm_f32(const GemmProblem& gemm, int threads);
// The same of a call of "matmul".
std::unique_ptr<const KernelPlan> plan_matmul_f32(const KernelCall& call);

}  // namespace toroid
