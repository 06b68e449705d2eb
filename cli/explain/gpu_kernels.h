// What a model's kernels take of a GPU.
#pragma once

#include <functional>

#include "driver/compile.h"

namespace toroid::cli {

// Prints a line for each kernel: registers of a thread, shared memory of a block, spilled bytes, the steps that start it. Then what is
// wrong with any. No GPU is needed where the architecture is named.
// Measures the ways of a program's steps, and says what became of each. The choices, as a lock.
tune::ChoiceLock explain_gpu_ways(Program program, const CompileModelOptions& options);
void explain_gpu_kernels(Program program, const CompileModelOptions& options);

}  // namespace toroid::cli
