// Prints a scheduled kernel as a Halide pipeline: what it computes, and no loops, which an autoscheduler of Halide's chooses.
//
//   def pipeline():                                  # a sum of each row of 4096 numbers, to which the row's length is added
//       p0 = hl.ImageParam(hl.Float(32), 1, "p0")
//       …
//       acc0[a0] = f64(0.0)
//       acc0[a0] = acc0[a0] + f64(part1[r2[0], a0])
//       out0[a0] = f32(acc0[a0]) + …
//       return [p0], [out0]
//
// Axes are variables, stashes and accumulators are functions of them. Inputs are flat: loads have positions. Outputs have a dim for each
// axis, with the strides that positions have along it. Sums of floats are added up in double, those of long contiguous rows from sums of
// sixteen lanes of at most some hundred numbers each.
//
// Kernels that it does not print are the processor's own, and the reason is known: indices that are read and checked, random numbers,
// divisions of integers by others than constants, special functions, tensors of 2^31 bytes.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "codegen/halide/halide_pipeline.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

struct PrintedHalide {
  HalidePipeline pipeline;  // with its entry
  // Its arguments: the context, the inputs, these sizes as int32_t, the outputs.
  struct Input {
    loop::BufferId buffer;
    sym::Expr elements;  // from the first one on
  };
  struct Dim {
    sym::Expr extent, stride;
  };
  struct Output {
    loop::BufferId buffer;
    sym::Expr offset;
    std::vector<Dim> dims;  // the innermost first
  };
  std::vector<Input> inputs;
  std::vector<sym::Expr> sizes;  // symbols
  std::vector<Output> outputs;
};
// Or why not. `kernel`: planned for a processor; its `finish` is left to the caller.
std::variant<PrintedHalide, std::string> print_halide(const loop::LoopProgram& program, const schedule::Kernel& kernel,
                                                      const std::string& autoscheduler);

// From a buffer's first element to its last.
sym::Expr elements_of(const loop::Buffer& buffer);

}  // namespace toroid::codegen
