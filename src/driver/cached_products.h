// cuBLASLt's quickest algorithms as entries of the cache, of the kind `product`: what one process measured at its second call, the next one
// begins with.
#pragma once

#include <memory>

#include "runtime/cuda/product_memory.h"

namespace toroid {

// The user's cache, opened when the first product asks. Thorough: what was measured of few suggestions is not found; what was measured of
// many is, by all.
std::shared_ptr<cuda::ProductMemory> cached_products(bool is_thorough);

}  // namespace toroid
