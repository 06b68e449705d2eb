// Large tensors that are read from end to end, by kernels that compute much for each element, are fetched some lines ahead of their use.
//
// The processor fetches ahead by itself as long as loads follow each other closely. Between loads that much computing keeps apart it falls behind:
// GELU and sigmoid of 2 x 128 MB took 17.2 ms on two threads of a Xeon, 13.1 with this (64 to 256 lines ahead: 13.4 to 14.4); a sum alone takes 12.5.
#include <algorithm>

#include "schedule/group.h"
#include "schedule/loops.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kAheadBytes = 2048;
constexpr int64_t kLeastBytes = 1 << 20;    // of a tensor: smaller ones are found in the second-level cache
constexpr int64_t kLeastRun = 4096;         // elements that follow each other

int64_t bytes_hint(const loop::Buffer& buffer) {
  int64_t elements = 1;
  for (sym::Expr size : buffer.sizes) elements = std::min(kLeastBytes, elements * std::min(kLeastBytes, sym::evaluate_hint(size)));
  return elements * size_bytes(buffer.dtype);
}

}  // namespace

void fetch_streams(const loop::LoopProgram& program, Kernel& kernel) {
  if (kernel.vector != VectorAlong::Outer || !kernel.inner.empty() || kernel.tile || kernel.product || kernel.stages.size() != 1) return;
  Stage& stage = kernel.stages[0];
  const sym::Expr along = kernel.outer.back();
  if (!computes_much(program.exprs, stage) || sym::evaluate_hint(*along.node()->extent) < kLeastRun) return;
  for (ExprId id : unconditional_loads(program.exprs, kernel)) {
    const auto& load = std::get<loop::Load>(program.exprs.node(id).op);
    if (bytes_hint(program.buffer(load.buffer)) < kLeastBytes || !only_axes_and_sizes(load.index[0]) || !is_contiguous(load.index[0], along)) continue;
    stage.fetches.push_back({load.buffer, load.index[0] + kAheadBytes / size_bytes(program.buffer(load.buffer).dtype), Fetch::To::FirstLevel});
  }
}

}  // namespace toroid::schedule
