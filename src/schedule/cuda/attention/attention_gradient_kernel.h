// The kernels of the gradient of attention on a GPU: which calls they take, and how their work is divided
// (codegen/cuda/prelude/attention/attention_gradient.inc). They are for all tensor cores from compute capability 8.0 on.
#pragma once

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace toroid::schedule {

// Blocks of threads have rows of queries, or of keys, of one head, and go through the others in tiles.
struct AttentionGradientKernel {
  int width;  // of a row
  int tile;

  static constexpr int kRows = 64, kThreads = 128;
  int64_t shared_bytes() const;
};
// Of float16 or bfloat16 [B, H, L, E], with rows of up to 128 elements on both sides, in eights: others stay products.
bool has_attention_gradient_kernel(const TensorType& q, const TensorType& v);
AttentionGradientKernel attention_gradient_kernel(sym::Expr width);

// The kernels on Hopper (codegen/cuda/prelude/attention/hopper_attention_gradient.inc), of rows of 64 elements that TMA can read:
// warpgroups that have 64 rows each, and one that brings tiles of the others. Two blocks of one group run at once.
struct HopperGradientKernel {
  static constexpr int kGroups = 1, kStages = 4;

  int rows() const { return 64 * kGroups; }
  int threads() const { return 128 * (kGroups + 1); }
  int64_t shared_bytes() const;
};
inline constexpr int64_t kHopperGradientWidth = 64;

}  // namespace toroid::schedule
