// Where a compiled model comes from, in its file (ToroidModelInfo::provenance): what compiled the model, and the model's file by its name
// and SHA-256. Neither a folder nor a date: the same model gives the same bytes anywhere. What compiled the kernels the library has by
// itself (codegen/wrapper/package_entry.h).
#pragma once

#include <string>
#include <string_view>

#include "driver/compile.h"

namespace toroid {

// The library's bytes, or those of an object with it, with these lines. Unchanged where it has no place for them, as one of emulated
// kernels. Throws Error{Environment} when the model's file was changed meanwhile, and Error{Unsupported} when the model holds such a place
// itself.
std::string with_provenance(std::string library, const CompiledModel& model);
// The same for the source of a package's entry.
std::string source_with_provenance(std::string entry, const CompiledModel& model);
// The lines that a library has; "" where it has none, or a model's constants look as if there were more.
std::string_view provenance_in(std::string_view library);

}  // namespace toroid
