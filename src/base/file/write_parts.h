// A file from parts that are never in memory as a whole.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/span.h"

namespace toroid {

// As write_file_atomically (file.h), with the parts one after the other.
void write_parts_atomically(const std::filesystem::path& path, Span<const Span<const std::byte>> parts, unsigned permissions = 0666);

}  // namespace toroid
