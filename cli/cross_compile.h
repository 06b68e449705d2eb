// compile --target: a package for processors of another architecture, from its sources by a cross compiler (docs/packages.md).
#pragma once

#include <string>

#include "driver/compile.h"

namespace toroid::cli {

// The bytes of the package's library without weights and checksums, built by TARGET-linux-gnu-g++ or what TOROID_CROSS_CXX names, with
// CMake and so many jobs, 0: one a core; ccache keeps the run side's objects where it is there. `model` was compiled for the baseline alone
// with CompileModelOptions::keep_sources. Throws Error{Environment} where a tool is missing, Error{ToolFailed} with what a tool says, and
// as emit_source does.
std::string cross_compile(const CompiledModel& model, const std::string& target, int jobs);

// Throws Error{InvalidOption} for a target that there are no packages for.
void check_target(const std::string& target);

}  // namespace toroid::cli
