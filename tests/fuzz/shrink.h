// Makes a failing program small: delta debugging on outputs, nodes, runs and sizes.
#pragma once

#include <functional>

#include "fuzz/program_text.h"

namespace toroid::fuzz {

// Whether a smaller program still fails in the same way.
using StillFails = std::function<bool(const Program&)>;
// Tries at most `tries` programs.
Program shrink(Program program, const StillFails& still_fails, int tries = 300);

}  // namespace toroid::fuzz
