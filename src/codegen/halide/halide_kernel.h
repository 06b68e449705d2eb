// A kernel of a processor whose work Halide pipelines do: the C++ function that describes its buffers to them.
#pragma once

#include <string>

#include "codegen/cpp/kernel.h"

namespace toroid::codegen {

// A kernel with Kernel::halide. It has one task, and pipelines share their loops among the threads of the program. Where only a call tells
// whether Halide may run, it also holds the kernel in C++: sizes must fit 32 bits and not be 0, what is written must lie apart from what is
// read, and a pipeline may refuse sizes that its vectors do not fit. Throws Error{InvalidModel} for a kernel that print_halide refuses.
KernelSource print_halide_kernel(const loop::LoopProgram& program, const schedule::Kernel& kernel, const Graph& graph, std::string name);

// What such functions use, a part of the prelude; and what pipelines call in the place of Halide's runtime, once for each program.
extern const std::string_view kHalideAbi, kHalideHost;

}  // namespace toroid::codegen
