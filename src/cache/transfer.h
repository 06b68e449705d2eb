// Moves a store's entries to a file and back, for container images and for machines without a shared cache:
//
//   "TOROIDX1", then for each entry: the sizes of kind, parts and bytes, each a little-endian uint64, then the key's 64 hex digits,
//   kind, parts and bytes, then the SHA-256 of all of these; at the end an entry whose three sizes are all 2^64 - 1
//
// What was probed of the machine stays behind. The checksums find damage, not malice: import only files that you would run.
#pragma once

#include <cstdint>
#include <filesystem>

#include "cache/store.h"

namespace toroid {

// Writes the file whole or not at all; returns the number of entries.
uint64_t export_entries(Store& store, const std::filesystem::path& path);

// Adds the file's entries; returns their number. Throws Error{InvalidInput} at the first that is damaged; those before it stay.
uint64_t import_entries(Store& store, const std::filesystem::path& path);

}  // namespace toroid
