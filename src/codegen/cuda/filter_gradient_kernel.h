// Prints the kernel of a gradient of filters in tiles (schedule/cuda/convolutions/filter_gradient_tiles.h).
#pragma once

#include <string>

#include "codegen/cuda/cuda_kernel.h"

namespace toroid::codegen::cuda {

CudaKernel print_filter_gradient(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name);

}  // namespace toroid::codegen::cuda
