// Prints scheduled kernels as C++.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cpp/print_index.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/halide/halide_pipeline.h"
#include "graph/graph.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

// How a kernel is called: `void NAME(pointers…, sizes…, int32_t* error, int64_t begin, int64_t end)` runs the tasks [begin, end).
struct KernelParameter {
  loop::BufferId buffer;
  bool is_output = false;
};
// What the messages of an assertion build name by number (Checked in access_prelude.cpp).
struct AccessNames {
  std::vector<std::string> buffers;  // the parameters, then rows of working memory
  std::vector<std::string> origins;  // what operators of the model the accesses come from
};
struct KernelSource {
  std::string name;  // of the function, unique in its program
  std::string text;  // the function, without the prelude
  std::vector<KernelParameter> parameters;
  std::vector<sym::Expr> sizes;                  // size symbols it takes, in order, as int64_t
  bool reports_errors = false;                   // takes `int32_t* error`, set to what went wrong as toroid_run codes it (program_abi.h)
  bool counts_tasks = false;                     // takes `int64_t* remaining`, the tasks that are not done yet: whoever does the last one
                                                 // also runs the kernel's finish
  bool is_epilogue = false;                      // takes, instead of begin and end, a block of a product: see ToroidEpilogue
  bool uses_runtime = false;                     // takes `const ToroidRuntime* runtime` (special functions)
  std::optional<AccessNames> access_names = {};  // of an assertion build: takes `const Checks* checks`, with these, and `int32_t* error`
  std::vector<HalidePipeline> halide = {};       // that it calls (codegen/halide/halide_kernel.h)
  sym::Expr tasks = 1;                           // of a kernel with stages and of a scatter (schedule/cpu/grid.h)
};

// Elements from one row of a tile to the next: not a power of two, so that rows spread over the cache.
inline constexpr int64_t kTileStride = schedule::kTileSide + 16;

// Prints one scheduled step; not for CallStep, BindStep, ChainStep and ParallelKernels. `assertions`: each access to a buffer is checked
// first.
KernelSource print_kernel(const loop::LoopProgram& program, const schedule::Step& step, const Graph& graph, std::string name,
                          bool assertions = false);

}  // namespace toroid::codegen
