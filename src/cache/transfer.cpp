#include "cache/transfer.h"

#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "base/file/framing.h"
#include "base/file/mapped_file.h"
#include "support/hash.h"

namespace toroid {
namespace {

constexpr std::string_view kMagic = "TOROIDX1";
constexpr uint64_t kEnd = UINT64_MAX;
constexpr size_t kKeyDigits = 64;
constexpr std::string_view kCutShort = "the file ends within an entry";

}  // namespace

uint64_t export_entries(Store& store, const std::filesystem::path& path, std::string_view kind) {
  std::string bytes(kMagic);
  uint64_t count = 0;
  store.for_each([&](const StoreEntry& entry) {
    if (entry.key.kind == "probe" || (!kind.empty() && entry.key.kind != kind)) return;
    const size_t start = bytes.size();
    append_number(bytes, entry.key.kind.size());
    append_number(bytes, entry.key.parts.size());
    append_number(bytes, entry.bytes.size());
    bytes += entry.key.hex;
    bytes += entry.key.kind;
    bytes += entry.key.parts;
    bytes += entry.bytes;
    const Digest digest = sha256(std::string_view(bytes).substr(start));
    bytes.append(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
    ++count;
  });
  for (int i = 0; i < 3; ++i) append_number(bytes, kEnd);
  write_file_atomically(path, std::string_view(bytes), 0600);
  return count;
}

uint64_t import_entries(Store& store, const std::filesystem::path& path) {
  ErrorContext context("importing {}", path.string());
  const MappedFile file(path);
  ExportReader reader(file.text());
  uint64_t count = 0;
  for (; const std::optional<ExportedEntry> entry = reader.next(); ++count) {
    if (!entry->is_whole()) reader.refuse("an entry's checksum does not match");
    store.put({std::string(entry->kind), std::string(entry->hex), std::string(entry->parts)}, entry->bytes);
  }
  return count;
}

bool ExportedEntry::is_whole() const {
  const Digest digest = sha256(summed);
  return std::memcmp(checksum.data(), digest.bytes.data(), digest.bytes.size()) == 0;
}

ExportReader::ExportReader(std::string_view file) : file_(file), rest_(file) {
  if (!file.starts_with(kMagic)) refuse("it does not start as one");
  take(kMagic.size());
}

std::optional<ExportedEntry> ExportReader::next() {
  const std::string_view start = rest_;
  const uint64_t kind = number(), parts = number(), bytes = number();
  if (kind == kEnd && parts == kEnd && bytes == kEnd) {
    if (!rest_.empty()) refuse("something follows its end");
    return std::nullopt;
  }
  ExportedEntry entry;
  entry.hex = take(kKeyDigits);
  entry.kind = take(kind);
  entry.parts = take(parts);
  entry.bytes = take(bytes);
  entry.summed = start.substr(0, start.size() - rest_.size());
  entry.checksum = take(Digest().bytes.size());
  return entry;
}

void ExportReader::refuse(std::string_view why) const {
  throw Error(ErrorKind::InvalidInput, fmt::format("not a whole export of a cache: {}", why))
      .at(fmt::format("before byte {}", file_.size() - rest_.size()))
      .help("write it again with 'toroid cache export'");
}

std::string_view ExportReader::take(uint64_t size) {
  if (size > rest_.size()) refuse(kCutShort);
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

uint64_t ExportReader::number() {
  const std::optional<uint64_t> value = take_number(rest_);
  if (!value) refuse(kCutShort);
  return *value;
}

}  // namespace toroid
