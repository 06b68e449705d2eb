// The library of preloaded.c, as the build made it (cmake/large_pages.cmake).
#pragma once

#include <string_view>

namespace toroid {

extern const std::string_view kLargePagesLibrary;  // an ELF file; empty where the build could not make it

}  // namespace toroid
