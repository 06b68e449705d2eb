#include "mutate/archive.h"

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/archive/zip_for_test.h"
#include "frontend/archive/zip_reader.h"

namespace toroid::mutate {

EditableArchive::EditableArchive(const std::filesystem::path& path) {
  const ZipReader zip = ZipReader::open(path);
  for (const ZipEntry& entry : zip.entries()) {
    const std::span<const std::byte> bytes = zip.read(entry);
    if (entry.name.ends_with(".json")) documents_.push_back({entries_.size(), Json::parse(zip.read_text(entry))});
    entries_.emplace_back(entry.name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
}

Json& EditableArchive::json(std::string_view name) {
  for (Document& document : documents_) {
    if (name_of(document).ends_with(name)) return document.json;
  }
  throw Error(ErrorKind::InvalidInput, fmt::format("the archive has no '{}'", name));
}

std::string EditableArchive::build() const {
  ZipForTest zip;
  for (const auto& [name, bytes] : entries_) zip.add(name, bytes);
  for (const Document& document : documents_) {
    zip.entries[document.entry].data = document.json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return zip.build();
}

}  // namespace toroid::mutate
