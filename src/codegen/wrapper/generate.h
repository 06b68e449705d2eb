// From scheduled graphs to C++ files: the kernels, in a few translation units, and the wrapper that calls them in order.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "lower/lower.h"
#include "schedule/schedule.h"
#include "schedule/work.h"

namespace toroid::codegen {

// A graph ready to be printed.
struct ScheduledGraph {
  schedule::Schedule schedule;
  std::vector<OutputBinding> outputs;
};
// `fuse`, `decisions`, `forms`: see make_schedule; decisions are those of the main graph.
std::vector<ScheduledGraph> schedule_graphs(std::vector<LoweredGraph> graphs, bool fuse = true,
                                            std::vector<schedule::FusionDecision>* decisions = nullptr,
                                            schedule::Forms forms = schedule::Forms::Measured);
std::string to_string(const std::vector<ScheduledGraph>& graphs);

struct GeneratedKernel {
  std::string name;
  std::string text;  // the function alone
};

// A number that becomes known while the program runs.
struct GeneratedBinding {
  sym::Expr expr;                    // what it is the value of
  std::optional<sym::Expr> defines;  // the symbol that follows from it; without one the number is only checked
};

// A step with several forms, of which the first call chooses one.
struct GeneratedChoice {
  size_t step;
  std::vector<std::string> forms;  // "persistent", "looped"; the one with the best estimate first
};

struct GeneratedProgram {
  std::vector<std::string> units;               // complete C++ files; together they are the program's library
  std::vector<GeneratedKernel> kernels;         // each distinct kernel once
  std::string prelude;                          // what a kernel needs in front of it to be compiled alone
  int kernel_calls = 0;                         // of generated kernels; a step may start several together
  int kernel_steps = 0;                         // steps that run generated kernels
  int library_calls = 0;                        // steps that call a library kernel
  std::vector<sym::Expr> symbols;               // the order of ToroidCall::symbols
  std::vector<GeneratedBinding> bindings;       // the order of ToroidRuntime::bind
  std::vector<ConstantId> constants;            // the order of ToroidCall::constants
  std::vector<schedule::Lifetime> temporaries;  // the order of ToroidCall::offsets
  int64_t prepared_bytes = 0;                   // of ToroidCall::prepared
  std::vector<bool> late_outputs;               // by output: its size is known only while the program runs
  std::vector<std::string> step_names;          // for messages, by step
  std::vector<std::string>
      step_origins;  // of each step, the last of its operators with its place in the model: "relu (aten::relu) in 2 (ReLU), from …"
  std::vector<std::vector<std::string>> step_kernels;  // of each step, the names of its generated kernels, epilogues included
  std::vector<GeneratedChoice> choices;                // the order of ToroidCall::forms
  std::vector<schedule::StepWork> step_work;           // by step, if the program is to be profiled
};

struct GenerateOptions {
  int max_units = 1;             // how many compilers may run at once
  std::string_view suffix = {};  // ends the names of the entries and kernels, so that the files of several variants can become one library
  bool profile = false;          // the runtime is told of each step (ToroidRuntime::step)
  bool assertions = false;       // kernels check each access to a buffer (ToroidRuntime::out_of_bounds)
};

// `graphs`: the main graph, then each subgraph of the program.
// Throws Error{Unsupported} for control flow that it cannot print, with its place in the model.
GeneratedProgram generate(const std::vector<ScheduledGraph>& graphs, const Program& program, const GenerateOptions& options = {});

// The file that exports the manifest; linked with the units.
std::string manifest_unit(std::string_view manifest);

}  // namespace toroid::codegen
