// compile --target: a package for processors of another architecture, from its sources by a cross compiler (docs/packages.md).
#pragma once

#include <string>

#include "driver/compile.h"

namespace toroid::cli {

// A compiler for another architecture, and CMake, which calls it.
class CrossCompiler {
 public:
  // "aarch64": aarch64-linux-gnu-g++, or what TOROID_CROSS_CXX names. Throws Error{InvalidOption} for a target that there are no packages
  // for, Error{Environment} where a program is missing.
  explicit CrossCompiler(std::string target);

  // The bytes of the package's library, without weights and checksums, by so many jobs, 0: one a core; ccache keeps the run side's objects
  // where it is there. `model` was compiled for the baseline alone with CompileModelOptions::keep_sources. Throws Error{ToolFailed} with
  // what a tool says, and as emit_code does.
  std::string library(const CompiledModel& model, int jobs) const;

 private:
  std::string target_, cmake_, compiler_, c_compiler_;
};

}  // namespace toroid::cli
