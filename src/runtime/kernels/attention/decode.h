// Attention of few queries: decoding.
#pragma once

#include "runtime/kernels/registry/library.h"

namespace toroid {

// Does it take so many rows that meet the same keys (AttentionCall::rows)? Keys and values have contiguous rows.
bool takes_few_queries(DType dtype, int64_t rows, int64_t width, int64_t out_width);
// As run_attention_blocks, with keys and values read where they lie.
void run_attention_of_few(const KernelCall& call);

}  // namespace toroid
