// Compiles generated C++ with the host's compiler, fast and with the float rules of toroid.
//
// The flags allow fused multiply-add and drop errno and floating-point traps; they never allow reassociation, and NaN,
// infinities and signed zeros keep their meaning. Generated code includes no standard header and uses no exceptions.
// Libraries are linked against libm (with libmvec) and libgcc only; what else a kernel calls must be passed to it as a
// pointer or be visible in the process that loads it.
//
// All functions are safe to call from several threads at once.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine/isa.h"
#include "toolchain/compiler.h"
#include "toolchain/kept_sources.h"
#include "toolchain/probe_cache.h"
#include "toolchain/run_side.h"

namespace toroid {

struct ToolchainOptions {
  std::string compiler = {};                  // a name or a path; empty: $TOROID_CXX, else g++, else clang++
  std::string isa = {};                       // an Isa's name; empty: $TOROID_ISA, else the best that works here
  std::vector<std::string> extra_flags = {};  // behind toroid's own, see extra_flags.h; empty: the words of $TOROID_CXXFLAGS
  std::chrono::milliseconds timeout = {};     // of one run of the compiler; 0: $TOROID_COMPILE_TIMEOUT_S, else 3 minutes
  uint64_t memory_limit_bytes = 0;  // of one compiler; 0: $TOROID_COMPILE_MEMORY (as in 4G), else half the machine's, at least 2 GiB
  ProbeCache probe_cache = {};
};

struct CompileOptions {
  std::string name = "kernel";  // for messages, and for the file in which the source of a failure is kept
  int optimization = 3;         // -O level
  // For debuggers: -g, at most -O1, and the source is kept where $TOROID_KEEP_FILES says, for the library refers to it.
  bool debug = false;
  bool contract = true;                       // a * b + c may become one fused multiply-add
  std::optional<Isa> isa = {};                // empty: the toolchain's
  std::vector<std::string> extra_flags = {};  // behind the toolchain's
  // What a line of the source, counted from 1, was made for in the user's terms; empty where nobody knows. Asked when the compiler
  // complains of the line.
  std::function<std::string(size_t line)> origin_of_line = {};
  KeptSources* kept = nullptr;  // where the source of a failure is kept; null: in a folder of its own
};

// What sources are compiled with on any machine, but for instruction sets, debugging and users' flags: the language and its rules for numbers.
std::vector<std::string> language_flags(const CompileOptions& options);

class Toolchain {
 public:
  // Throws Error{Environment} when no compiler is found, Error{InvalidOption} for extra flags that are refused.
  explicit Toolchain(ToolchainOptions options = {});

  const Compiler& compiler() const { return compiler_; }
  const Isa& isa() const { return isa_; }
  const std::vector<std::string>& extra_flags() const { return options_.extra_flags; }  // of the user, for every compilation
  // Every flag that decides the machine code, compiling and linking; part of a kernel's key. Throws Error{InvalidOption} for a debug build
  // without a folder for its sources.
  std::vector<std::string> flags(const CompileOptions& options = {}) const;

  // The variables that are set of those that decide what compilers make (compiler_environment.h); part of a kernel's key too.
  static std::map<std::string, std::string> environment();

  // These throw Error{ToolFailed} with the compiler's first lines, its command and where the source was kept.
  std::string compile_object(std::string_view source, const CompileOptions& options = {}) const;
  std::string link_shared(std::span<const std::string> objects, const CompileOptions& options = {}) const;
  // The same with the run side: a package's library, which needs nothing but the C library.
  std::string link_package(std::span<const std::string> objects, const RunSide& run_side, const RunSideUse& use,
                           const CompileOptions& options = {}) const;
  // The same as one object for a program to link, with libc and libm, whose only name is `prefix`_toroid_api.
  std::string link_object(std::span<const std::string> objects, const RunSide& run_side, const RunSideUse& use, std::string_view prefix,
                          const CompileOptions& options = {}) const;
  // Source to shared library in one run of the compiler.
  std::string compile_shared(std::string_view source, const CompileOptions& options = {}) const;

 private:
  Isa probe_isa() const;
  bool isa_works(const Isa& isa) const;
  std::vector<std::string> compile_flags(const CompileOptions& options) const;
  std::string link(std::span<const std::string> objects, std::vector<std::string> before, std::vector<std::string> behind,
                   const CompileOptions& options) const;
  std::string run_compiler(std::vector<std::string> arguments, std::string_view source, const CompileOptions& options,
                           std::string_view product, const std::filesystem::path& folder) const;

  ToolchainOptions options_;
  Compiler compiler_;
  Isa isa_;
};

}  // namespace toroid
