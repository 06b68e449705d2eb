// A compiled model as files: a package, or an archive with its header, and where it is asked for the weights in a file of their own.
#pragma once

#include <filesystem>

#include "driver/compile.h"

namespace toroid {

// CompileModelOptions::archive_prefix for an output: empty but for FILE.a. Throws Error{InvalidOption} for an archive of emulated
// kernels.
std::string prefix_of_output(const std::filesystem::path& output, const CompileModelOptions& options);

// Throws before the work what writing would throw. `weights` may be empty: they follow the package.
void check_outputs(const std::filesystem::path& output, const std::filesystem::path& weights);

void write_compiled(const CompiledModel& model, const std::filesystem::path& output, const std::filesystem::path& weights,
                    CompileSession& session);

}  // namespace toroid
