// Copies between the memory of the process and that of a GPU, in programs that have tensors in both (passes/devices/explicit_copies.h).
//
//   device.copy   x (to)   -> x's elements, in the memory of the GPU where `to` is 1, in that of the process where it is 0
//
// In graphs it is an operation as any other; where all tensors are in one memory, as in the evaluator, it copies bytes. Programs for a GPU
// start the copy behind what was started before. What the host reads of its result waits for it: a call of kWaitCall, a library kernel
// without operands.
#pragma once

#include "library/library_ops.h"

namespace toroid {

inline constexpr std::string_view kDeviceCopy = "device.copy", kDeviceCopyKernel = "library.device.copy";  // the latter in programs
inline constexpr std::string_view kWaitCall = "gpu.wait";

namespace device {
void copy(const LibraryCall& call);
}

}  // namespace toroid
