// What a caller asks of compile(), and what follows from it: the parts of a program's key that are of the options.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine/isa.h"
#include "cache/shared_work.h"
#include "codegen/wrapper/generate.h"
#include "graph/custom/custom_operators.h"
#include "passes/specialise.h"
#include "schedule/schedule.h"
#include "toolchain/toolchain.h"
#include "tune/tuner.h"

namespace toroid {

// Which implementations of library kernels a program uses, and on a GPU which way each of its steps is done (docs/tuning.md). Without
// either of the first two, kernels decide when they are called.
struct ChooseOptions {
  bool measure = false;                       // all that may compete, in a worker process
  std::optional<tune::ChoiceLock> lock = {};  // those of a file
  int threads = 0;                            // of a call, when it is measured; 0: the default
  std::vector<std::string> worker = {};       // the command of a tuning worker; empty: this program is toroid
  bool keep = false;                          // CompiledModel::choices is wanted
  // Of a program for a GPU: no problem is begun later, and those that are left go by their estimates. Part of the program's key: with more
  // time than before a program is tuned further, beginning with what was measured.
  double limit_s = 18;

  bool is_asked() const { return measure || lock; }
};
tune::TunerOptions tuner_options(const ChooseOptions& options);  // of library kernels

// A model cut for several processes (passes/shard/shard.h).
struct ShardRequest {
  int processes = 1;            // 1: it is not cut
  int rank = -1;                // whose part is compiled; -1: what the launcher, MPI's, Slurm's or torchrun, says this process is
  std::string rules_file = {};  // of the user (passes/shard/rules.h); empty: none
};

// Does TOROID_HALIDE_PYTHON name a Python? Without that nothing is looked for: a probe is a process more, and pipelines take seconds.
bool may_halide_compete();

struct CompileModelOptions {
  codegen::Target target = codegen::Target::Cpu;
  bool in_triton = false;   // of a program for GPUs: kernels are in Triton, as far as its printer takes them
  std::string halide = {};  // not empty: kernels are Halide pipelines, as far as its printer takes them, scheduled by this
  // Where implementations are chosen (ChooseOptions), Halide pipelines compete with the processor's own kernels.
  bool halide_competes = may_halide_compete();
  // Of a program for GPUs: tensors stay where the model has them, some on the CPU and some on a GPU, with explicit copies between the two
  // (passes/devices/placement.h). Else all are on the GPU.
  bool as_exported = false;
  int gpu = 0;                                  // the number of the one that a program for GPUs is for
  std::vector<std::string> architectures = {};  // of GPUs (sm_80, sm_90a, compute_90); none: that of the GPU
  int compile_threads = 0;                      // compilers at a time; 0: one a core
  std::vector<SizeValues> variants = {};        // forms of the program for calls with these sizes, besides the general one
  std::filesystem::path save_source = {};       // a folder for the generated C++; empty: none
  std::filesystem::path dump_ir =
      {};  // a folder for numbered dumps after each pass that changed the program, and each later phase; empty: none
  // To find out which part is at fault: false leaves out constant folding and all fusion, so that each operation is a kernel.
  bool optimise = true;
  // Graph passes to leave out, by name (passes/pipeline.h), to find out which one is at fault.
  std::vector<std::string> without_passes = {};
  // Folders with the files of custom operators (docs/custom-operators.md), before those of TOROID_OPERATORS.
  std::vector<std::string> operators = {};
  // Ranks of the groups of processes that collective operators name (docs/several-processes.md): "row=0,1", "column=0-3,6".
  std::vector<std::string> process_groups = {};
  ShardRequest shard = {};
  int optimization = 3;                          // the C++ compiler's -O level
  std::vector<std::string> compiler_flags = {};  // further ones for the C++ compiler; what they may be: toolchain/extra_flags.h
  // For debuggers: compiled with -g, at most -O1, from sources that stay in the folder that TOROID_KEEP_FILES names.
  bool debug = false;
  // Kernels check each access to a buffer. One out of bounds is Error{Internal} with its kernel, buffer and operator, in the place of a
  // crash or of wrong results. Library kernels are not checked.
  bool assertions = false;
  // CompiledModel::program is wanted. The graph is then lowered again even when its library is in the cache.
  bool keep_program = false;
  bool profile = false;        // Executable::step_times is wanted: each step is timed
  bool explain_cache = false;  // CompiledModel::lookups is wanted
  // None: a library for this process alone. Else one that holds its own run side, for processors with the instructions of these levels;
  // none of them: those of this machine. Emulated kernels are in none.
  std::optional<std::vector<Isa>> package = {};
  std::string archive_prefix =
      {};                    // not empty: what CompiledModel::library is then, an object for a program to link (driver/package/archive.h)
  bool is_portable = false;  // a package's library kernels have the extras (VNNI, AMX, …) of all machines, whatever its levels name
  // Of a package the sources are wanted, in the place of its library: CompiledModel::sources.
  bool keep_sources = false;
  ChooseOptions choose = {};
  // Of several processes that compile this model at the same time and have a common cache, on one machine or many: which problems this one
  // measures first, and which objects it compiles first. Each of them has the whole program in the end. The library's bytes are the same
  // for any number of parts with the same records of tuning.
  std::optional<Part> part = {};
  // Which forms kernels have (docs/scheduling.md, "Two forms"). None: what TOROID_FORMS says; without it the first call measures, but for a
  // program with a lock, in which nothing is measured.
  std::optional<schedule::Forms> forms = {};
};

// Of what these options choose.
tune::TunerOptions tuner_options(const CompileModelOptions& options);
// The forms that kernels have with these options. Throws Error{InvalidOption} for a TOROID_FORMS that is none of them.
schedule::Forms forms_of(const CompileModelOptions& options);

// Sets the target: "cpu", "halide", "halide:adams2019", "cuda", "cuda:1", "triton", "triton:1", "as-exported", "as-exported:1" (tensors stay
// where the model has them, its GPU is of NVIDIA and has that number), "rocm", "rocm:1", "emulated-cuda", "emulated-as-exported",
// "emulated-rocm" or "emulated-rocm:gfx1100" (whose waves it has; else those of gfx90a), as commands call them. Throws Error{InvalidOption}
// for another name.
void set_device(CompileModelOptions& options, std::string_view name);

// Asks for a package for these processors: "native", "portable", or a list of levels, as `--cpu` has it; one for GPUs, whose target is set
// already, is for all. Throws Error{InvalidOption} for another text.
void set_levels(CompileModelOptions& options, std::string_view text);

// What a program is compiled for, the most able one last: the package's levels, or `here` for this process alone.
std::vector<Isa> levels_for(const CompileModelOptions& options, const Isa& here);

// The options' as Program::process_groups. Throws Error{InvalidOption} for a text that is none.
std::map<std::string, std::vector<int64_t>> process_groups_of(const CompileModelOptions& options);

// Where the custom operators of a model are looked for: the options' folders, those of TOROID_OPERATORS, and beside it.
std::shared_ptr<CustomOperators> find_operators(const std::filesystem::path& model, const CompileModelOptions& options);

struct GraphKeyParts;
// What the key of a program has of the options. Throws as compiling does for options that do not go together.
GraphKeyParts key_parts(const CompileModelOptions& options);

// Of the C++ compiler.
CompileOptions compiler_options(const CompileModelOptions& options);
// What kernels are compiled for and by; "" for this machine's processor.
std::string target_text(const CompileModelOptions& options);
// Where a library with its own run side is asked for: that.
std::optional<RunSide> run_side_of(const CompileModelOptions& options, Whole whole = Whole::Unchecked);

}  // namespace toroid
