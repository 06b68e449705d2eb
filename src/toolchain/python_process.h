// A Python that compiles for toroid in a process of its own: Triton's kernels, Halide's pipelines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/process/subprocess.h"

namespace toroid {

// It finds its packages as it does in the user's shell; variables that change what compilers make are withheld. `folder`: for what it writes.
ProcessOptions python_process(std::vector<std::string> argv, const std::filesystem::path& folder = {});
// The Python that this variable of the environment names, else python3.
std::string python_of(const char* variable);

}  // namespace toroid
