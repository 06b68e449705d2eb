// Large pages for compilers, where Linux gives them only to those who ask ("madvise", Ubuntu's default): compilers do not. They are started
// with a small library (preloaded.c) that asks for them. g++ then takes a sixth less processor time for a kernel, in a virtual machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "support/process/subprocess.h"

namespace toroid {

// Of the text of /sys/kernel/mm/transparent_hugepage/enabled, "always [madvise] never": are large pages given to those who ask, and to no
// others?
bool gives_large_pages_on_request(std::string_view enabled);

// Where that is so here, writes the library to `folder`, the compiler's own one, and has it loaded before the compiler and what that starts,
// behind what the user has loaded so. Does nothing where files of the folder cannot be loaded. What the compiler makes stays the same.
void ask_for_large_pages(ProcessOptions& compiler, const std::filesystem::path& folder);

// A compiler's words without those of a loader that could not load it, of another kind of program as it may be.
std::string without_words_about_large_pages(std::string_view words);

}  // namespace toroid
