// A use of a kernel of the user's own in Halide: the pipeline, and what is passed to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/custom/custom_kernel.h"
#include "codegen/halide/halide_pipeline.h"
#include "loop/loop.h"

namespace toroid::codegen {

struct CustomHalide {
  HalidePipeline pipeline;  // with its entry
  struct Argument {
    std::string type, value;                       // of a number: in C++. Of a tensor: where its elements are
    std::optional<program::Operand> operand = {};  // the tensor
    DType dtype = DType::F32;
    int type_code = 2, bits = 32;  // … as halide_type_t has it
  };
  std::vector<Argument> arguments;  // behind the context
};
// Throws Error{Unsupported} for dtypes that Halide has not.
CustomHalide custom_halide(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made, const loop::LoopProgram& loops,
                           const program::LibraryCall& call);

}  // namespace toroid::codegen
