// All forms of a program as the sources of one library.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/wrapper/package_entry.h"
#include "driver/build_library.h"
#include "driver/compile_options.h"
#include "driver/package/absent_code.h"
#include "driver/pipeline/generated_variant.h"

namespace toroid {

struct AssembledProgram {
  LibrarySources sources;
  std::vector<size_t> prelude_bytes;  // of each unit, those that it begins with
  int kernels = 0, kernel_calls = 0, library_calls = 0;
  // Of a library with its own run side.
  codegen::PackageEntry entry;
  PackageNeeds needs;
  RunSideUse use;
};

// Takes the variants' units; the general form is the last. Writes the sources where the options say. Throws for what the user's own kernels
// may not be in such a library.
AssembledProgram assemble(std::vector<GeneratedVariant>& variants, const ConstantTable& constants, const codegen::ProgramTexts& texts,
                          const CompileModelOptions& options);

}  // namespace toroid
