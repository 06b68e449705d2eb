// Elements to try kernels with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace toroid::tune {

// Floats in [-1, 1), so that sums neither overflow nor drown their terms; integers of 4 bits; bools. The same for the same seed.
void write_random_elements(DType dtype, std::span<std::byte> bytes, uint64_t seed);

}  // namespace toroid::tune
