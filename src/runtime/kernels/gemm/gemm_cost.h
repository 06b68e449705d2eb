// How long the algorithms of a float32 product take, by estimate: what mode default, the tuner and products inside other kernels rank with.
#pragma once

#include "runtime/kernels/gemm/gemm_small_m.h"
#include "runtime/kernels/registry/registry.h"

namespace toroid {

// One product, and how many of the same. Strides in elements.
struct GemmToEstimate {
  int64_t batches = 1, m = 0, n = 0, k = 0;
  bool b_is_packed = false;         // by earlier calls: it is a constant
  int64_t a_column = 1;             // stride from column to column of the left side
  int64_t b_row = 1, b_column = 1;  // strides of the right side from row to row and from column to column
};

inline constexpr int64_t kMostSmallM = 64;  // rows that FewRows… are taken for: with more, packing has always paid

// Can the algorithm compute it? Packed can always.
bool takes(GemmAlgorithm algorithm, const GemmToEstimate& gemm);
// Seconds on machine.threads threads. `gemm` must be one that the algorithm takes.
double estimate_s(GemmAlgorithm algorithm, const GemmToEstimate& gemm, const MachineModel& machine);
// The one of the lowest estimate.
GemmAlgorithm cheapest_algorithm(const GemmToEstimate& gemm, int threads);

// The plan of a call of "matmul" in float32.
std::unique_ptr<const KernelPlan> plan_matmul_f32(const KernelCall& call, GemmAlgorithm algorithm);

}  // namespace toroid
