// A name for the very build of toroid that runs. What its passes decide depends on its own code, so keys of compiled
// graphs carry this name; keys of kernels do not, since a kernel's text says it all.
#pragma once

#include <string>

namespace toroid {

// The linker's build id of the program or library that holds this code, or else the hash of its file. Never empty.
std::string code_identity();

}  // namespace toroid
