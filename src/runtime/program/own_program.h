// The program of a package that holds its own run side: which it is, and where its file lies.
#pragma once

#include <string>
#include <string_view>

#include "toroid/gpu_abi.h"
#include "toroid/program_abi.h"

namespace toroid {

// Of the library that this code is linked into; null where that is toroid itself, or the run library (no_own_program.cpp).
extern "C" const ToroidLevels* const toroid_own_levels;
// Of one for a GPU; else null.
extern "C" const ToroidGpuProgram* const toroid_own_gpu_program;

// Of a program that is linked with its model, an archive (`compile -o FILE.a`): the package's bytes, without a library; else null.
struct EmbeddedPackage {
  const char *begin, *end;
  const char* name;
};
extern "C" const EmbeddedPackage* const toroid_embedded_package;

// Where such a library comes from (codegen/wrapper/package_entry.h); else "".
extern "C" const char* const toroid_own_provenance;

struct OwnProgram {
  const ToroidLevels& levels;
  std::string path;
};
// Throws Error{Unsupported} where there is none, and Error{Environment} where its file cannot be found.
OwnProgram own_program();

// Throws Error{Environment} unless the code that runs is that of `library`, its file's first bytes: the file may have been replaced since it
// was loaded, and its weights are then another program's.
void refuse_other_code(const OwnProgram& own, std::string_view library);

}  // namespace toroid
