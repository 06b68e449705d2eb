// compile(): a model file becomes a loaded program. The pipeline reads from top to bottom in compile.cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "codegen/wrapper/generate.h"
#include "driver/compiled_graph.h"
#include "graph/graph.h"
#include "passes/specialise.h"
#include "runtime/program/executable.h"
#include "toolchain/toolchain.h"
#include "tune/tuner.h"

namespace toroid {

class MappedFile;

// Which implementations of library kernels a program uses, and on a GPU which way each of its steps is done (docs/tuning.md). Without
// either of the first two, kernels decide when they are called.
struct ChooseOptions {
  bool measure = false;                       // all that may compete, in a worker process
  std::optional<tune::ChoiceLock> lock = {};  // those of a file
  int threads = 0;                            // of a call, when it is measured; 0: the default
  std::vector<std::string> worker = {};       // the command of a tuning worker; empty: this program is toroid
  bool keep = false;                          // CompiledModel::choices is wanted
  double limit_s = 18;                        // of a program for a GPU: no problem is begun later

  bool is_asked() const { return measure || lock; }
};
tune::TunerOptions tuner_options(const ChooseOptions& options);  // of library kernels

struct CompileModelOptions {
  codegen::Target target = codegen::Target::Cpu;
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
  // none of them: those of this machine. Programs for GPUs do not have it yet.
  std::optional<std::vector<Isa>> package = {};
  std::string archive_prefix =
      {};                    // not empty: what CompiledModel::library is then, an object for a program to link (driver/package/archive.h)
  bool is_portable = false;  // a package's library kernels have the extras (VNNI, AMX, …) of all machines, whatever its levels name
  // Of a package the sources are wanted, in the place of its library: CompiledModel::sources.
  bool keep_sources = false;
  ChooseOptions choose = {};
  // Which forms kernels have (docs/scheduling.md, "Two forms"). None: what TOROID_FORMS says; without it the first call measures, but for a
  // program with a lock, in which nothing is measured.
  std::optional<schedule::Forms> forms = {};
};

// Of what these options choose.
tune::TunerOptions tuner_options(const CompileModelOptions& options);
// The forms that kernels have with these options. Throws Error{InvalidOption} for a TOROID_FORMS that is none of them.
schedule::Forms forms_of(const CompileModelOptions& options);

// Sets the target: "cpu", "cuda", "cuda:1" or "emulated-cuda", as commands call them. Throws Error{InvalidOption} for another name.
void set_device(CompileModelOptions& options, std::string_view name);

// Asks for a package for these processors: "native", "portable", or a list of levels, as `--cpu` has it. Throws Error{InvalidOption} for
// another text.
void set_levels(CompileModelOptions& options, std::string_view text);

// One question to the cache and its answer.
struct CacheLookup {
  std::string_view what;  // "model file", "graph" or "library"
  CacheKey key;
  bool is_hit = false;
  std::optional<std::string> nearest = {};  // after a miss: the parts of the entry whose key differs least, if there is one
};

struct PhaseTime {
  std::string name;
  double seconds;
};

// Where the custom operators of a model are looked for: the options' folders, those of TOROID_OPERATORS, and beside it.
std::shared_ptr<CustomOperators> find_operators(const std::filesystem::path& model, const CompileModelOptions& options);

struct GraphKeyParts;
// What the key of a program has of the options. Throws as compiling does for options that do not go together.
GraphKeyParts key_parts(const CompileModelOptions& options);

struct PackageSources;
struct CompiledModel {
  std::optional<Program> program;                      // the general form at core level, as compiled, if it was to be kept
  std::string library;                                 // bytes of the shared library
  std::vector<std::span<const std::byte>> constants;   // in the order of ToroidProgram::constants
  std::shared_ptr<const void> owner;                   // of the constants
  std::shared_ptr<const PackageSources> sources = {};  // if they were to be kept; then `library` is empty
  std::string name;
  Isa isa;                       // that the library needs
  std::vector<Isa> levels = {};  // of a package: all, the most demanding first
  int kernels = 0;
  int kernel_calls = 0;
  int library_calls = 0;
  int gpu = 0;                                         // as of CompileModelOptions
  std::shared_ptr<cuda::ProductMemory> products = {};  // of a program for a GPU, if the cache is used
  bool from_cache = false;                             // no compiler ran
  // How the cache was used: "hit: model file", "hit: graph", "hit: library", "miss", or "bypass: " and the reason.
  std::string cache_use;
  std::vector<CacheLookup> lookups;  // if CompileModelOptions::explain_cache; none where the cache was not asked
  std::vector<std::string> guards;   // what was assumed of sizes beyond what the model says, as text
  std::vector<PhaseTime> phases;
  std::vector<tune::Decision> choices;    // if ChooseOptions::is_asked(), by problem; none where the program comes from the cache
  uint64_t choices_late = 0;              // of them those that the time did not suffice for; compiling again goes on with them
  std::string choices_log, choices_lock;  // if ChooseOptions::keep: the same as JSON, and as a lock file
  CompiledGraph graph;                    // what the cache keeps of it; empty after a bypass
  double seconds() const;

  // `threads` 0: the default. Throws Error{Environment} on a machine that lacks the instructions.
  Executable load(int threads = 0) const;
};

// What compilations share: the compiler and the cache. Several threads may use it at once. Where memory or threads run out its functions
// throw Error{Environment}, and it stays usable.
class CompileSession {
 public:
  // `use_cache` false: nothing is read from or written to the cache, but for probes of the compiler. Throws as Cache does.
  explicit CompileSession(bool use_cache = true);
  CompileSession(const CompileSession&) = delete;
  CompileSession& operator=(const CompileSession&) = delete;

  // Imports `path`: a .pt2 to an import-level program, whose unsupported operators are reported together; or a text (model_text.h). Of the
  // options, those count that say where custom operators are found.
  static Program import(const std::filesystem::path& path, const CompileModelOptions& options = {});
  // Consumes the program. Of all processes and threads that compile the same program, one does, and the others take its result.
  CompiledModel compile(Program program, const CompileModelOptions& options = {});
  CompiledModel compile_file(const std::filesystem::path& path, const CompileModelOptions& options = {});

  // Probed when it is first asked for.
  Toolchain& toolchain();
  Cache& cache() { return cache_; }

 private:
  CompiledModel compile_mapped(const std::filesystem::path& path, const CompileModelOptions& options);
  CompiledModel compile_mapped(const std::shared_ptr<const MappedFile>& file, const CompileModelOptions& options);
  CompiledModel compile_graph(Program program, const CompileModelOptions& options, CompiledModel model);

  Cache cache_;
  Store probes_;
  bool use_cache_;
  std::once_flag probed_;
  std::optional<Toolchain> toolchain_;
};

// The C++ of a program's general form, as compile() would build it for `threads` compilers; no compiler is needed, and nothing is measured.
// Consumes the program.
codegen::GeneratedProgram generate_code(Program program, const CompileModelOptions& options = {}, int threads = 1);

}  // namespace toroid
