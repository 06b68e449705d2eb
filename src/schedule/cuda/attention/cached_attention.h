// Attention of few queries that writes the row of its cache itself, and makes its queries.
//
// A step of decoding rotates the new query and key, writes a row of the cache, and asks all rows. Before attention that is a small kernel,
// which costs its start and its end, a microsecond and more. The blocks of attention wait for the product before it anyway: each makes the
// queries of its heads in shared memory, and the one that has the row's place makes the row, for itself and for the cache.
//
//   scatter keys = keys_before set add(mul(...), ...)        call attention {
//   scatter values = values_before set ...            =>       y = attention() on q, keys, values
//   kernel q = add(mul(...), ...)                              prologue q ...
//   call y = attention on q, keys, values                      update keys ...
//                                                              update values ...
//                                                            }
#pragma once

#include <array>

#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/attention/late_row.h"

namespace toroid::schedule {

// What an axis is at [batch, head, row, column]: the sum of some of these, each times a number.
struct AxisOfOperand {
  struct Part {
    size_t dim;
    sym::Expr factor;
  };
  sym::Expr axis;
  std::vector<Part> parts;
};
using AxesOfOperand = std::vector<AxisOfOperand>;

struct CachedAttention {
  LateRow late;
  std::optional<AxesOfOperand> queries;  // of the prologue's axes
  std::array<AxesOfOperand, 2> rows;     // of the updates', which have no row
};

// Of a call with updates. None: there is no such kernel.
std::optional<CachedAttention> as_cached_attention(const loop::LoopProgram& program, const CallStep& step);
AttentionKernel cached_attention_kernel(const loop::LoopProgram& program, const CallStep& step);
GpuTiles cached_attention_tiles(const loop::LoopProgram& program, const CallStep& step);
CudaGrid cached_attention_grid(const loop::LoopProgram& program, const CallStep& step);

// Gives such calls their updates and prologues, which are no steps then. The steps' attention has its choice.
void fuse_cache_updates(const loop::LoopProgram& program, std::vector<Step>& steps);

}  // namespace toroid::schedule
