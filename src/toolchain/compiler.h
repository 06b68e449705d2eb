// The host's C++ compiler: where it is, what it calls itself, and a fingerprint of its bytes.
//
// A key that names cached machine code must change whenever the compiler does. The version's text is not enough (a
// rebuilt or patched compiler keeps it), so the fingerprint hashes the driver and the programs behind it: cc1plus, as,
// ld.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "toolchain/probe_cache.h"

namespace toroid {

enum class CompilerKind { Gcc, Clang };

struct Compiler {
  std::filesystem::path path;
  CompilerKind kind = CompilerKind::Gcc;
  std::string version;      // the first line of --version
  std::string fingerprint;  // SHA-256, 64 digits
  // What sources are compiled through, as distcc or ccache; paths. Part of no key: it is trusted to run this compiler, wherever it does.
  std::vector<std::filesystem::path> launcher = {};

  std::string name() const { return path.filename().string(); }
};

// Where a compiler is, and what it is started through.
struct CompilerCommand {
  std::filesystem::path path;
  std::vector<std::filesystem::path> launcher = {};
};

// Takes `wanted` if it is given (a name or a path, or such a one behind its launchers, "distcc g++"), else $TOROID_CXX, else the first of
// g++ and clang++ in $PATH. Throws Error{Environment} that names what was tried, Error{InvalidOption} for flags among the words.
CompilerCommand find_compiler(std::string_view wanted = {});

// Runs the compiler to learn its version and hashes its programs (about 0.1 s), or takes that from the cache if none of
// those files has changed since.
Compiler identify_compiler(const std::filesystem::path& path, const ProbeCache& cache = {});
// The same, with its launcher, which nothing is asked of.
Compiler identify_compiler(CompilerCommand command, const ProbeCache& cache = {});

}  // namespace toroid
