// Moves a store's entries to a file and back, for container images and for machines without a shared cache:
//
//   "TOROIDX1", then for each entry: the sizes of kind, parts and bytes, each a number of base/file/framing.h, then the key's 64 hex
//   digits, kind, parts and bytes, then the SHA-256 of all of these; at the end an entry whose three sizes are all 2^64 - 1
//
// What was probed of the machine stays behind. The checksums find damage, not malice: import only files that you would run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "cache/store.h"

namespace toroid {

// Writes the file whole or not at all; returns the number of entries. `kind`: of one kind alone; empty: all.
uint64_t export_entries(Store& store, const std::filesystem::path& path, std::string_view kind = {});

// Adds the file's entries; returns their number. Throws Error{InvalidInput} at the first that is damaged; those before it stay.
uint64_t import_entries(Store& store, const std::filesystem::path& path);

// An entry as it lies in the file.
struct ExportedEntry {
  std::string_view hex, kind, parts, bytes;
  std::string_view summed;  // what the checksum is of
  std::string_view checksum;
  bool is_whole() const;  // reads all of it
};

// Walks over a file's entries; their bytes are looked at only by is_whole().
class ExportReader {
 public:
  // `file` must outlive what is read. Throws Error{InvalidInput} when it does not start as an export.
  explicit ExportReader(std::string_view file);
  // Nothing at the end. Throws Error{InvalidInput} where the file is cut short or goes on after its end.
  std::optional<ExportedEntry> next();
  // Throws Error{InvalidInput} that says where, and how to get a better file.
  [[noreturn]] void refuse(std::string_view why) const;

 private:
  std::string_view take(uint64_t size);
  uint64_t number();
  std::string_view file_, rest_;
};

}  // namespace toroid
