// The text every generated C++ file starts with: lane types, loads and stores, and the scalar operators on them.
//
// It includes no header, so a kernel compiles in a few hundredths of a second. Vectors are the compiler's vector extensions;
// transcendental functions are glibc's libmvec. A kernel's body is printed once and instantiated twice: with Full<W> for the main loop
// and with Part<W>, which touches only the first `count` lanes, for the tail.
#pragma once

#include <string_view>

namespace toroid::codegen {

extern const std::string_view kPrelude;
// Behind it in files whose kernels draw random numbers (ExtraPreludes, scalar_text.h).
extern const std::string_view kRandomPrelude;
// Behind it, and behind the interface of programs (wrapper/abi_text.h), in assertion builds.
extern const std::string_view kAccessPrelude;
// Behind it in files whose kernels compute special functions of lanes (ExtraPreludes).
extern const std::string_view kSpecialPrelude;

}  // namespace toroid::codegen
