// Flags of the user for the C++ compiler, beside toroid's own: $TOROID_CXXFLAGS, --cxxflag, CompileModelOptions::compiler_flags.
//
// They are part of every key as they are written, so the words of a flag must say all that it does. One that names a file or means this
// machine (-march=native) is refused, and so is one that changes what the compiler makes of what, or adds instructions: a program says
// which it needs by TOROID_ISA's words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toroid {

// At spaces, tabs and newlines; quotes mean nothing.
std::vector<std::string> split_flags(std::string_view text);

// Throws Error{InvalidOption} for the first flag that is refused.
void check_extra_flags(const std::vector<std::string>& flags);

}  // namespace toroid
