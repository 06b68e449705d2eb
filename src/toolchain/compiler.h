// The host's C++ compiler: where it is, what it calls itself, and a fingerprint of its bytes.
//
// A key that names cached machine code must change whenever the compiler does. The version's text is not enough (a
// rebuilt or patched compiler keeps it), so the fingerprint hashes the driver and the programs behind it: cc1plus, as,
// ld.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "toolchain/probe_cache.h"

namespace toroid {

enum class CompilerKind { Gcc, Clang };

struct Compiler {
  std::filesystem::path path;
  CompilerKind kind = CompilerKind::Gcc;
  std::string version;      // the first line of --version
  std::string fingerprint;  // SHA-256, 64 digits

  std::string name() const { return path.filename().string(); }
};

// Takes `wanted` if it is given (a name or a path), else $TOROID_CXX, else the first of g++ and clang++ in $PATH.
// Throws Error{Environment} that names what was tried.
std::filesystem::path find_compiler(std::string_view wanted = {});

// Runs the compiler to learn its version and hashes its programs (about 0.1 s), or takes that from the cache if none of
// those files has changed since.
Compiler identify_compiler(const std::filesystem::path& path, const ProbeCache& cache = {});

}  // namespace toroid
