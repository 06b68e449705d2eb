// A Python that compiles for toroid in a process of its own: Triton's kernels, Halide's pipelines.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/json_reader.h"
#include "support/process/subprocess.h"

namespace toroid {

// It finds its packages as it does in the user's shell; variables that change what compilers make are withheld. `folder`: for what it
// writes.
ProcessOptions python_process(std::vector<std::string> argv, const std::filesystem::path& folder = {});
// The Python that this variable of the environment names, else python3.
std::string python_of(const char* variable);

// A compiler that is a package of Python's.
struct PythonCompiler {
  const char* name;            // "Triton"
  const char* what;            // that it compiles: "Triton kernels"
  const char* package;         // for pip
  const char* least;           // the oldest version that will do: "3.5"
  const char* variable;        // as of python_of
  const char* version_script;  // in Python: prints the version, or nothing where the package is missing
};

// "Triton 3.6.0", looked up once for each Python. Throws Error{Environment} where there is no Python, or none that has it in such a
// version.
std::string version_of(const PythonCompiler& compiler);

// Gives `request` to `script`, which works in `folder`, and returns what it says: a list of `count` answers, whose name for errors is
// `answers` ("binaries"). The time limit is that of `count` compilations. Throws what version_of throws, and Error{ToolFailed} with the end
// of the script's own words.
JsonDocument compile_in_python(const PythonCompiler& compiler, std::string_view script, const std::string& request,
                               const std::filesystem::path& folder, size_t count, std::string_view answers);

}  // namespace toroid
