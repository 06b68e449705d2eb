// Runs of programs for a GPU. Packages for processors have none of it (package/without_gpu.cpp).
#pragma once

#include "api/context.h"

namespace toroid::api {

// With tensors in the process's memory.
void run_with_copies(Context& context);
// With tensors on the program's GPU.
void run_on_stream(Context& context, void* stream);

}  // namespace toroid::api
