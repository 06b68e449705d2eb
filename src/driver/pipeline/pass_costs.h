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
// PassCosts::byte_convolutions of a processor with these instructions. By AVX2 pairs of 16 bits are multiplied up to 1.5 times as fast as
// float32, for which there is Winograd's method where filters have several elements.
ByteConvolutions byte_convolutions(const Isa& isa);

}  // namespace toroid
