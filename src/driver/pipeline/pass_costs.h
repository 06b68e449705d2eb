// What graph passes weigh, answered with the estimates by which the runtime chooses its kernels.
#pragma once

#include "base/machine/isa.h"
#include "passes/costs.h"

namespace toroid {

// Those of one thread of a machine with this one's instructions and a last cache of 8 MB: a program does not depend on how many threads
// or how much cache the machine that compiles it has.
PassCosts pass_costs();
// On a GPU: the estimates by which its planner chooses tiles (schedule/cuda/products/product_tiles.h), with a start for each product.
PassCosts gpu_pass_costs();
// Is a processor with these instructions quicker with products of bytes than of float32 (PassCosts::multiplies_bytes)? Pairs of 16 bits
// multiply no faster than float32, which has Winograd's method.
bool multiplies_bytes(const Isa& isa);

}  // namespace toroid
