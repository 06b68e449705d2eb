// What a product's epilogue costs, for estimates.
#pragma once

#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

// `products`: what it takes, all in the same tiles.
EpilogueWork work_of_epilogue(const loop::LoopProgram& program, const Kernel& kernel, const std::vector<BufferId>& products);

}  // namespace toroid::schedule
