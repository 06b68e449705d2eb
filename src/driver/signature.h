// What a compiled program takes and gives, as a program without computation: for tools that make or read its inputs.
#pragma once

#include "graph/graph.h"
#include "toroid/program_abi.h"

namespace toroid {

// Inputs, symbols, guards and what its outputs are for. Throws Error{InvalidModel} where the tables' text is no program.
Program signature_of(const ToroidVariant& variant);

}  // namespace toroid
