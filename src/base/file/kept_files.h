// TOROID_KEEP_FILES=DIR: what normally lives in memory only is also laid down as files, for debuggers and profilers. Sources with the
// command that compiles them (NAME-HASH.cpp, NAME-HASH.sh), and libraries (NAME-HASH.so), which are then loaded from there, so that
// gdb and perf find their symbols. The hash is of the contents: the same program leaves the same files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace toroid {

// The folder, made if need be; nullopt when the variable is not set. Throws Error{Environment} when it cannot be made.
std::optional<std::filesystem::path> kept_files_folder();

// The same, absolute, for a debug build, which cannot do without: its debug information refers to the sources there. Throws
// Error{InvalidOption} when the variable is not set.
std::filesystem::path sources_folder();

// Writes NAME-HASH.EXTENSION there and returns its path. `extension` without a dot.
std::filesystem::path keep_file(const std::filesystem::path& folder, std::string_view name, std::string_view extension,
                                std::string_view bytes, unsigned permissions = 0644);

}  // namespace toroid
