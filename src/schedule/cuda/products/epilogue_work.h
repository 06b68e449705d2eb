// What a product's epilogue costs, for estimates.
#pragma once

#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

EpilogueWork work_of_epilogue(const loop::LoopProgram& program, const Kernel& kernel, BufferId product);

}  // namespace toroid::schedule
