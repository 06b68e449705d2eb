// From a schedule to C++ files: the kernels, in a few translation units, and the wrapper that calls them in order.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "lower/lower.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

struct GeneratedKernel {
  std::string name;
  std::string text;              // the function alone
};

struct GeneratedProgram {
  std::vector<std::string> units;             // complete C++ files; together they are the program's library
  std::vector<GeneratedKernel> kernels;       // each distinct kernel once
  int kernel_calls = 0;                       // steps that run a generated kernel
  int library_calls = 0;                      // steps that call a library kernel
  std::vector<sym::Expr> symbols;             // the order of ToroidCall::symbols
  std::vector<loop::BufferId> constants;      // the order of ToroidCall::constants
  std::vector<schedule::Lifetime> temporaries;  // the order of ToroidCall::offsets
  std::vector<std::string> step_names;        // for messages, by step
};

// `max_units`: how many compilers may run at once. `manifest` becomes toroid_manifest.
GeneratedProgram generate(const schedule::Schedule& schedule, const std::vector<OutputBinding>& outputs, const Program& program,
                          int max_units);

// The file that exports the manifest; linked with the units.
std::string manifest_unit(std::string_view manifest);

}  // namespace toroid::codegen
