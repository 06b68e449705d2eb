// Prints a scheduled kernel as Triton: a program has a tile of so many rows (combinations of the outer axes) by elements (of the inner
// ones).
//
//   @triton.jit
//   def kernel(x, out):                       # softmax: rows of 1000
//       row = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None]
//       is_row = row < 4096
//       element = tl.arange(0, 1024)[None, :]
//       is_element = is_row & (element < 1000)
//       …
//
// A row that fits is one tile, in which stages share what they compute; a longer one is gone through piece by piece in each stage. Indices
// have 32 bits where all of them fit. One that is read from a tensor is checked: an error is written where CUDA's kernels write it.
// A transpose has square tiles. Kernels that it does not print are CUDA's, and the reason is known: random numbers, special functions, sums
// of columns beside rows.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "codegen/triton/triton_kernel.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

struct PrintedTriton {
  TritonKernel kernel;  // without a name; its arguments are the buffers', then the sizes'
  std::vector<loop::BufferId> buffers;
  std::vector<sym::Expr> sizes;  // symbols, each an int64_t
  sym::Expr blocks;
  bool reports_errors = false;  // then two more arguments: where to (gpu_abi.h), and the step's number
};
// Or why not. `step`: a Kernel or a ScanKernel; others are refused.
std::variant<PrintedTriton, std::string> print_triton(const loop::LoopProgram& program, const schedule::Step& step);

}  // namespace toroid::codegen
