// The generated sources as files for people.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/wrapper/generate.h"

namespace toroid {

// Each kernel as a file that compiles alone, with the prelude beside it, and which kernels each step has.
void save_kernels(const std::filesystem::path& folder, const codegen::GeneratedProgram& code, std::string_view suffix);
// What the library is compiled from: NAME0.EXTENSION and so on.
void save_units(const std::filesystem::path& folder, std::string_view name, std::span<const std::string> units, std::string_view extension);
// Where debuggers look for them, also where the library, which refers to them, comes from the cache.
void keep_sources(const std::vector<std::string>& units);

}  // namespace toroid
