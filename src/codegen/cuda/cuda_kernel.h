// Prints one scheduled kernel as CUDA.
//
// A thread is scalar code: where it has several neighbouring elements, the loop over them is unrolled around what one access loads and
// stores.
//
//   KERNEL __launch_bounds__(256) add_kernel(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out) {
//     typedef int Index;
//     const Index element = (blockIdx.x * (Index)256 + threadIdx.x) * 4;
//     if (element >= 1048576) return;
//     …
#pragma once

#include <string>

#include "codegen/cpp/kernel.h"
#include "codegen/cuda/prelude.h"
#include "schedule/cuda/launches/overlap.h"
#include "schedule/cuda/products/product_tiles.h"

namespace toroid::codegen::cuda {

struct CudaKernel {
  // Its parameters are the tensor maps, the buffers, the sizes and, if it reports errors, `Failure* failure, int32_t step`. The random
  // state is passed by value.
  KernelSource source;
  bool waits = false;  // its threads wait for each other
  Preludes preludes = {};
  std::vector<schedule::TensorMap> tensor_maps = {};
};

// `step`: a Kernel, ScanKernel, ScatterKernel, ParallelKernels, or a CallStep with tiles, planned by schedule::cuda_planner(). A scatter's
// base must have been copied to its result before. `overlap`: of its launch. Throws Error{Unsupported} for what a GPU does not compute.
CudaKernel print_kernel(const loop::LoopProgram& program, const schedule::Step& step, const Graph& graph, std::string name,
                        const schedule::Overlap& overlap = {});
// Of attention of which some scores do not count: what comes before it.
CudaKernel print_score_table(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name);
// Of a scatter that fills its result: what comes before it.
CudaKernel print_fill(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name);
// Of a scatter with parts of chunks: what comes after it, with as many blocks.
CudaKernel print_join(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name);

}  // namespace toroid::codegen::cuda
