// compile --emit-source: a package as a source tree that CMake builds (docs/packages.md).
#pragma once

#include <filesystem>
#include <string>

#include "driver/compile.h"

namespace toroid::cli {

// Writes the tree without its weights into a folder that is empty or not there yet, and gives the library's name in it, without .so;
// `model` was compiled with CompileModelOptions::keep_sources. Kernels for GPUs are compiled by so many threads, 0: one a core. Throws
// Error{InvalidOption} for a folder with files in it, Error{Unsupported} for a program that calls oneDNN, Error{Environment} where it
// cannot write, and what NVRTC says of kernels.
std::string emit_code(const std::filesystem::path& folder, const CompiledModel& model, int threads);

// The whole tree.
void emit_source(const std::filesystem::path& folder, const CompiledModel& model, int threads);

}  // namespace toroid::cli
