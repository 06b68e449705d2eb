// compile(): a model file becomes a loaded program, or is found in the cache. The pipeline is pipeline/generate.cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/span.h"
#include "cache/cache.h"
#include "driver/compile_options.h"
#include "driver/compiled_graph.h"
#include "driver/pipeline/phase_clock.h"
#include "graph/graph.h"
#include "runtime/program/executable.h"
#include "toolchain/toolchain.h"
#include "tune/tuner.h"

namespace toroid {

class LoadedProgram;
class MappedFile;

// One question to the cache and its answer.
struct CacheLookup {
  std::string_view what;  // "model file", "graph" or "library"
  CacheKey key;
  bool is_hit = false;
  std::optional<std::string> nearest = {};  // after a miss: the parts of the entry whose key differs least, if there is one
};

struct PackageSources;
struct CompiledModel {
  std::optional<Program> program;                      // the general form at core level, as compiled, if it was to be kept
  std::string library;                                 // bytes of the shared library
  std::string host_library = {};                       // the same for this machine, where that is for another and its tables are asked for
  std::vector<Span<const std::byte>> constants;        // in the order of ToroidProgram::constants
  std::shared_ptr<const void> owner;                   // of the constants
  std::shared_ptr<const PackageSources> sources = {};  // if they were to be kept; then `library` is empty
  std::string name;
  std::shared_ptr<const MappedFile> file = {};  // of the model, as it was compiled; none where it came from memory
  Isa isa;                                      // that the library needs
  std::vector<Isa> levels = {};                 // of a package: all, the most demanding first
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
  tune::TunerCounters tuning;             // of the same
  int objects = 0, objects_made = 0;      // with CompileModelOptions::part, if the library had to be built: in all, and here
  uint64_t choices_late = 0;              // of them those that the time did not suffice for: ChooseOptions::limit_s
  std::string choices_log, choices_lock;  // if ChooseOptions::keep: the same as JSON, and as a lock file
  CompiledGraph graph;                    // what the cache keeps of it; empty after a bypass
  double seconds() const;

  // `threads` 0: the default. Throws Error{Environment} on a machine that lacks the instructions.
  Executable load(int threads = 0) const;
  // The same for any number of executables that share it.
  std::shared_ptr<LoadedProgram> load_program(int threads = 0) const;
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
  CompiledModel compile_text(const std::filesystem::path& path, const CompileModelOptions& options);
  CompiledModel compile_mapped(const std::filesystem::path& path, const CompileModelOptions& options);
  CompiledModel compile_mapped(const std::shared_ptr<const MappedFile>& file, const CompileModelOptions& options);
  CompiledModel compile_graph(Program program, const CompileModelOptions& options, CompiledModel model);

  Cache cache_;
  Store probes_;
  bool use_cache_;
  std::mutex probing_;
  std::optional<Toolchain> toolchain_;
};

}  // namespace toroid
