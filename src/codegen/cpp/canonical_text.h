// Whether kernels are equal but for the names of their buffers, as those of a model's layers are.
#pragma once

#include <string>

#include "codegen/cpp/kernel.h"

namespace toroid::codegen {

// The kernel's text without comments and with its buffers' names replaced by their order of appearance: the same for equal kernels.
std::string canonical_text(const KernelSource& source, const loop::LoopProgram& program);

}  // namespace toroid::codegen
