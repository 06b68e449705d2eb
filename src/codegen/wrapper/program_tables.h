// What a compiled program says of itself, as constant tables in its library (toroid_program of program_abi.h): what goes in and out, the
// facts about sizes that it relies on, and where its functions are.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/wrapper/generate.h"
#include "graph/graph.h"

namespace toroid::codegen {

// One variant, with what generate() made of it under the suffix of its place (variant_suffix).
struct VariantTables {
  const Program& program;  // at core level
  const GeneratedProgram& code;
  std::span<const std::pair<std::string, int64_t>> conditions;  // the sizes that choose it, by the names of the general variant's symbols
  std::span<const size_t> constants;                            // positions among the program's, in the order of Module::constants
};

// "_v0", "_v1", …, and "" for the last one, which serves every call.
std::string variant_suffix(size_t variant, size_t num_variants);

// What a program says of itself, as in ToroidProgram.
struct ProgramTexts {
  std::string_view training = {}, call_tree = {};
};

// C++ text that goes behind a unit of the program. Throws Error{InvalidModel} for a tensor with more bytes than 63 bits count.
std::string program_tables(std::span<const VariantTables> variants, std::span<const ConstantData* const> constants,
                           const ProgramTexts& texts);
// A binary of a program for GPUs: a unit of its kernels, for an architecture as sm_80, sm_90a (and no other) or compute_90 (PTX).
struct GpuBinary {
  size_t unit;
  std::string architecture;
  bool tells_launch = false;  // of a unit with one kernel: it says how that is started
};
// What a program for a GPU has behind them (toroid/gpu_abi.h). draws: its kernels read the random state. `modules`: of each variant.
std::string gpu_tables(std::span<const GpuBinary> binaries, bool draws, std::span<const program::Module* const> modules = {});
// How its binary says that a kernel is started, and the kernel's name.
struct GpuLaunchFacts {
  std::string kernel;
  int threads, shared_bytes;
  int64_t scratch_bytes;
  int scratch_alignment, more_pointers;
};
// A C++ file that holds the number-th of its binaries. `launch`: of one that says so.
std::string binary_unit(size_t number, std::string_view binary, const std::optional<GpuLaunchFacts>& launch = {});

}  // namespace toroid::codegen
