// Attention in bfloat16 for machines with tiles (isa/amx.h).
#pragma once

#include "runtime/kernels/registry/library.h"

namespace toroid {

// As run_attention_blocks, of BF16: scores and softmax in float32; the softmax's exponentials, at most 1, are rounded to meet the values.
void run_attention_tiles(const KernelCall& call);

}  // namespace toroid
