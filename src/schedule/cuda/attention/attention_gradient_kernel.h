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
  int parts() const;  // of the columns of keys' and values' gradients: a block has one
};
// Of float16 or bfloat16 [B, H, L, E], with rows of up to 256 elements on both sides, in eights: others stay products.
bool has_attention_gradient_kernel(const TensorType& q, const TensorType& v);
AttentionGradientKernel attention_gradient_kernel(sym::Expr width);

// The kernels on Hopper, of rows of 64 to 256 elements that TMA can read: warpgroups that multiply, and one that brings tiles of 64
// rows. Rows of 64 are left sides in registers, and two blocks of one group run at once
// (codegen/cuda/prelude/attention/hopper_attention_gradient.inc); wider ones stay in shared memory where they do not fit, and two
// groups are a block (hopper_wide_gradient.inc).
struct HopperGradientKernel {
  int own_width;                // of a row
  bool has_tiled_mask = false;  // a mask that TMA brings, too

  static constexpr int kTileRows = 64;
  // What rows are taken as, with zeros behind their elements.
  int width() const { return (own_width + 63) / 64 * 64; }
  bool is_wide() const { return own_width > 64; }
  int groups() const { return is_wide() ? 2 : 1; }
  int threads() const { return 128 * (groups() + 1); }
  int blocks_at_once() const { return is_wide() ? 1 : 2; }
  int tile_bytes() const { return kTileRows * width() * 2; }
  // Of the kernel for queries, and of the one for keys. `stages`: of the ring, where they hold keys, or values, or both; queries and what
  // their results' gradients are.
  struct Half {
    int rows, stages;
    int64_t shared_bytes;
  };
  Half of_queries() const;
  Half of_keys() const;
};
// Does it take such rows, and such a mask beside them?
bool can_have_tiled_mask(sym::Expr width);
bool is_hopper_gradient_width(sym::Expr width);

}  // namespace toroid::schedule
