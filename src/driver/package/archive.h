// A compiled model as a static archive and its header, `compile -o m.a`: a program links it with libc and libm, and two of them go into one.
//
//   m.a: program.o, the model with its run side, of which m_toroid_api alone is to be seen; weights.o, the package's weights
//   m.h: toroid.h, and that function's declaration
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/machine/isa.h"
#include "base/span.h"
#include "toolchain/toolchain.h"

namespace toroid {

// What begins an archive's names, as C has them: "my_model" of "lib/my-model.a".
std::string archive_prefix(const std::filesystem::path& archive);

// An archive needs the C library that the run side was compiled with, or a newer one; a portable toroid may run beside an older one. Throws
// Error{Environment} where `here` is older, a version as "2.31"; "": this system's.
void require_c_library_of_archives(std::string_view here = "");

// Beside the archive its header. Throws Error{InvalidOption} for more weights than a program can hold.
void write_archive(const std::filesystem::path& archive, std::string_view object, Span<const Span<const std::byte>> constants,
                   std::span<const Isa> levels, const Toolchain& tools);

}  // namespace toroid
