// cuBLASLt's quickest algorithms as entries of the cache, of the kind `product`: what one process measured at its second call, the next one
// begins with.
#pragma once

#include <memory>

#include "runtime/cuda/product_memory.h"

namespace toroid {

// The user's cache, opened when the first product asks.
std::shared_ptr<cuda::ProductMemory> cached_products();

}  // namespace toroid
