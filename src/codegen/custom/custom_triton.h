// A use of a kernel of the user's own in Triton: what is compiled, and what a launch passes.
#pragma once

#include <string>
#include <vector>

#include "codegen/custom/custom_kernel.h"
#include "codegen/triton/triton_kernel.h"

namespace toroid::codegen {

struct CustomTriton {
  TritonKernel kernel;                                      // without its name in the binary
  std::vector<std::pair<std::string, std::string>> passed;  // arguments that are no constants: their types and values in C++
};
// `configuration`: the number of one. Throws Error{Unsupported} for dtypes that Triton has not.
CustomTriton custom_triton(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made, const program::LibraryCall& call,
                           size_t configuration);

}  // namespace toroid::codegen
