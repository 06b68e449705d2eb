// The text that generated C++ files start with, as far as they use it (prelude_parts.h): lane types, loads and stores, and the scalar
// operators on them.
//
// It includes no header, so a kernel compiles in a few hundredths of a second. Vectors are the compiler's vector extensions;
// transcendental functions are glibc's libmvec. A kernel's body is printed once and instantiated twice: with Full<W> for the main loop
// and with Part<W>, which touches only the first `count` lanes, for the tail.
#pragma once

#include <string_view>

namespace toroid::codegen {

extern const std::string_view kPrelude;
// Random numbers.
extern const std::string_view kRandomPrelude;
// Special functions of lanes.
extern const std::string_view kSpecialPrelude;
// Behind these, and behind the interface of programs (wrapper/abi_text.h), in assertion builds.
extern const std::string_view kAccessPrelude;

}  // namespace toroid::codegen
