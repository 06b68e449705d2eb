// From a program's module to C++ files: the kernels, in a few translation units, and the wrapper that calls them in order.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/cpp/prelude/prelude_parts.h"
#include "codegen/custom/custom_kernel.h"
#include "graph/graph.h"
#include "program/module.h"
#include "schedule/scheduled_graph.h"

namespace toroid::codegen {

struct GeneratedKernel {
  std::string name;
  std::string text;  // the function alone
};

// A product of float32 by a matrix: what of its sizes every call has.
struct ProductShape {
  std::optional<int64_t> rows = {}, columns = {}, depth = {};  // of the result, and of what is summed
  bool right_by_rows = true, right_by_columns = true;          // the right side's rows, or columns, may be contiguous
};

struct GeneratedProgram {
  std::vector<std::string> units;                    // C++ files without their prelude; together they are the program's library
  std::shared_ptr<const PreludeParts> unit_prelude;  // in front of each, what it uses of this
  size_t host_units = 0;  // of a program for a GPU, the first so many: kernels that the processor runs, behind what they use of prelude_for
  std::vector<std::string> gpu_units = {};             // complete CUDA files, whose binaries belong to it
  std::vector<std::string> triton_units = {};          // kernels in Triton (codegen/triton/triton_kernel.h), each a unit behind those
  std::vector<std::string> not_in_triton = {};         // where kernels are to be in Triton: steps that are not, and why
  std::vector<std::string> halide_pipelines = {};      // that kernels call (codegen/halide/halide_pipeline.h), each an object of its own
  std::vector<std::string> not_in_halide = {};         // where kernels are to be in Halide: steps that are not, and why
  std::vector<GeneratedKernel> kernels;                // each distinct kernel once
  std::vector<GeneratedKernel> host_kernels = {};      // of a program for a GPU: those that the processor runs
  std::string prelude;                                 // what any kernel needs in front of it to be compiled alone
  std::vector<std::vector<std::string>> step_kernels;  // of each step, the names of its generated kernels, epilogues included
  program::Module module;                              // what the files do
  bool draws = false;                                  // kernels read the random state
  std::set<std::string> linked_kernels = {};           // of the runtime, what it calls (runtime/kernels/linked/linked_kernels.h)
  std::vector<ProductShape> products = {};             // of "matmul.f32"
  bool calls_special_functions = false;                // of the runtime
  bool calls_onednn = false;                           // by choices that name it
  CustomEntries custom_entries = {};                   // what it calls of kernels of the user's own, which are no part of `units`
};

// What kernels are printed for: NVIDIA's GPUs, or AMD's. Emulated ones: the same, compiled for a processor, to test them.
enum class Target : uint8_t { Cpu, Cuda, EmulatedCuda, Rocm, EmulatedRocm };
constexpr bool is_emulated(Target target) { return target == Target::EmulatedCuda || target == Target::EmulatedRocm; }
// Is it a device, with memory and binaries of its own?
constexpr bool is_device(Target target) { return target == Target::Cuda || target == Target::Rocm; }
constexpr bool is_amd(Target target) { return target == Target::Rocm || target == Target::EmulatedRocm; }

struct GenerateOptions {
  Target target = Target::Cpu;
  int wave = 32;                 // of an emulated GPU: threads that run together
  int max_units = 1;             // how many compilers may run at once
  std::string_view suffix = {};  // ends the names of the entries and kernels, so that the files of several variants can become one library
};

// `graphs`: the main graph, then each subgraph of the program; the module is made of them. Their buffers get names that are unique in C++.
GeneratedProgram generate(program::Module module, const std::vector<schedule::ScheduledGraph>& graphs, const Program& program,
                          const GenerateOptions& options = {});

// Of kernels for a processor: kPrelude and all that may stand behind it.
std::shared_ptr<const PreludeParts> prelude_for(bool assertions);
// Puts in front of each unit, which has all its other text, what it uses of its prelude.
void add_prelude(std::span<std::string> units, const PreludeParts& prelude);
// The same of the program's units, each with its own prelude.
void add_prelude(std::span<std::string> units, const GeneratedProgram& program);

}  // namespace toroid::codegen
