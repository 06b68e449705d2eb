// Attention: softmax(q k^T) v.
#pragma once

#include "runtime/kernels/registry/library.h"

namespace toroid {

// In blocks of queries, in float32. F32, F16 or BF16. integers: causal. numbers: scale. The output may have any strides but between the
// elements of a row. The mask, of the same dtype, is added to the scores or, when Bool, tells where a query may look.
void run_attention_blocks(const KernelCall& call);

}  // namespace toroid
