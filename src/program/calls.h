// What a schedule's calls become: all of an instruction that does not depend on where it stands.
#pragma once

#include <vector>

#include "program/module.h"

namespace toroid::program {

// Without its site and epilogue.
LibraryCall library_call(const toroid::Program& program, const loop::LoopProgram& loops, const schedule::CallStep& step);

// Of a HigherOrder. Throws Error{Unsupported} for one that cannot be compiled.
ControlFlow control_flow(const loop::LoopProgram& loops, const schedule::CallStep& step);
// The subgraphs that it runs.
std::vector<uint32_t> called_by(const ControlFlow& flow);

}  // namespace toroid::program
