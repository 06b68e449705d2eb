// Names of buffers that are identifiers, each once in its program.
#pragma once

#include "loop/loop.h"

namespace toroid::codegen {

// Buffers, axes, sizes and temporaries share scopes with each other and with the prelude's functions.
void make_names_unique(loop::LoopProgram& loops, const Program& program);

}  // namespace toroid::codegen
