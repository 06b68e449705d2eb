// What a target does with fused kernels: the seam between fusion, which knows no target, and the plans of loops and steps, which do.
//
// group.h and build_kernel.cpp make kernels of axes, stages, accumulators and stashes. A planner chooses what a processor wants of them.
#pragma once

#include <compare>
#include <optional>

#include "schedule/fusion/chains.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {

class Planner {
 public:
  virtual ~Planner() = default;
  // For subgraphs of control flow, whose inputs may be slices that begin anywhere.
  virtual const Planner& of_subgraphs() const { return *this; }
  // Before computations are grouped: large reductions may become several. Not when nothing is to be fused.
  // `on_host`: those of the host, or all others (loop::is_on_host); none: all.
  virtual void prepare(loop::LoopProgram&, std::optional<bool> /*on_host*/ = {}) const {}
  // A kernel, not planned yet, as the epilogue of the product that it reads, planned.
  virtual EpilogueAttempt as_epilogue(loop::LoopProgram&, const Kernel&, const loop::Call&, BufferId) const {
    return {std::nullopt, "the target's products take no epilogue"};
  }
  // Plans the kernel and adds it to the steps, or to the last of them.
  virtual void append(loop::LoopProgram&, std::vector<Step>& steps, Kernel kernel, bool /*fuse*/) const {
    steps.push_back(std::move(kernel));
  }
  // When all steps are there. Says of which convolutions it made chains, and why of others it did not.
  virtual ChainDecisions finish(Schedule&, bool /*fuse*/, Forms) const { return {}; }
};

// Vectors, epilogues, several threads and caches.
const Planner& cpu_planner();
// Leaves kernels as fusion made them, for scalar code.
const Planner& plain_planner();
// What multiplies matrices on a GPU besides the library. Warps: mma.sync, from compute capability 8.0 on.
enum class TensorCores : uint8_t { None, Warps, Hopper };
// What else of GPUs decides plans.
struct GpuLimits {
  int wave = 32;                     // threads that run together, and exchange numbers without memory
  int64_t shared_bytes = 227 << 10;  // of a block, at most
  auto operator<=>(const GpuLimits&) const = default;
};
// Threads of a GPU (cuda/cuda_planner.cpp).
const Planner& cuda_planner(TensorCores cores = TensorCores::None, const GpuLimits& limits = {});
// For a program with some of its tensors on the host (loop::Buffer::on_host): the CPU's plans of what is computed there, those of `gpu` of
// all else.
const Planner& mixed_planner(const Planner& gpu);

}  // namespace toroid::schedule
