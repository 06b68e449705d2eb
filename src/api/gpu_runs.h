// Runs of programs for a GPU, and tensors there. Packages for processors have none of it (package/without_gpu.cpp).
#pragma once

#include "api/context.h"
#include "tensor/host_tensor.h"

namespace toroid::api {

// With tensors in the process's memory.
void run_with_copies(Context& context);
// With tensors on the program's GPU.
void run_on_stream(Context& context, void* stream);
// The values of a tensor in the memory of any GPU, in row-major order. Throws Error{InvalidInput} where that is no such memory. what:
// "tensor 0".
HostTensor values_on_gpu(const InputView& view, int gpu, const std::string& what);

}  // namespace toroid::api
