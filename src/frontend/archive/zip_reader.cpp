#include "frontend/archive/zip_reader.h"

#include <cstring>
#include <numeric>

#include <zlib.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/mapped_file.h"

namespace toroid {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEndRecord = 0x06054b50;
constexpr uint32_t kEndRecord64 = 0x06064b50;
constexpr uint32_t kEndLocator64 = 0x07064b50;
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr size_t kEndRecordBytes = 22;
constexpr size_t kEndRecord64Bytes = 56;
constexpr size_t kEndLocator64Bytes = 20;
constexpr uint16_t kExtra64 = 0x0001;  // the extra field with an entry's 64-bit sizes and offset
constexpr uint16_t kFlagEncrypted = 1 << 0;
constexpr uint16_t kFlagSizesFollowData = 1 << 3;
constexpr uint64_t kMaxEntries = 65535;
constexpr uint32_t kUnixTypeMask = 0170000;
constexpr uint32_t kUnixSymbolicLink = 0120000;

[[noreturn]] void reject(uint64_t offset, std::string_view file, std::string reason) {
  throw Error(ErrorKind::InvalidModel, "archive rejected: " + reason)
      .at(fmt::format("at byte {} of {}", offset, file))
      .help("export the model again with torch.export.save, or copy the file again if it was cut short");
}

std::string printable_entry(std::string_view name) {
  std::string text;
  for (char c : name.substr(0, 200)) text += c >= ' ' && c <= '~' ? c : '?';
  return text;
}

// Why a name cannot be trusted; null when it can.
const char* name_fault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.front() == '/' || (name.size() >= 2 && name[1] == ':')) return "is absolute";
  for (char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "holds a control character";
    if (c == '\\') return "holds a backslash";
  }
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    if (part == "..") return "leaves the archive through '..'";
    if (part == "." || (part.empty() && end != name.size())) return "has an empty or '.' part";
    start = end + 1;
  }
  return nullptr;
}

// Little-endian numbers at checked places of the file.
class Bytes {
 public:
  Bytes(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  uint64_t size() const { return bytes_.size(); }
  bool holds(uint64_t offset, uint64_t count) const { return offset <= size() && count <= size() - offset; }
  template <class T>
  T number(uint64_t offset) const {
    need(offset, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string_view text(uint64_t offset, uint64_t count) const {
    need(offset, count);
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, static_cast<size_t>(count)};
  }
  void need(uint64_t offset, uint64_t count) const {
    if (!holds(offset, count)) reject(offset, file_, "a record reaches past the end of the file");
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
};

// Where the directory is and how many entries it has.
struct Directory {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint64_t entries = 0;
};

// "\x7fELF", with which every program of 'toroid compile' begins.
constexpr uint32_t kElf = 0x464c457f;

// The end record is the last one whose comment ends exactly with the file.
uint64_t find_end_record(const Bytes& bytes, std::string_view file) {
  if (bytes.size() >= sizeof kElf && bytes.number<uint32_t>(0) == kElf) {
    throw Error(ErrorKind::InvalidModel, "this is a compiled program, not a model")
        .at(fmt::format("at byte 0 of {}", file))
        .help("give the .pt2 that it was compiled from; 'toroid run' and 'toroid bench' take the program too");
  }
  if (bytes.size() >= kEndRecordBytes) {
    const uint64_t last = bytes.size() - kEndRecordBytes;
    const uint64_t longest_comment = std::min<uint64_t>(last, 0xffff);
    for (uint64_t comment = 0; comment <= longest_comment; ++comment) {
      const uint64_t offset = last - comment;
      if (bytes.number<uint32_t>(offset) == kEndRecord && bytes.number<uint16_t>(offset + 20) == comment) return offset;
    }
  }
  reject(bytes.size(), file, "no end record: this is not a ZIP file, or it was cut short");
}

Directory read_end_records(const Bytes& bytes, std::string_view file) {
  const uint64_t end = find_end_record(bytes, file);
  if (bytes.number<uint16_t>(end + 4) != 0 || bytes.number<uint16_t>(end + 6) != 0) {
    reject(end, file, "it is spread over several disks");
  }
  Directory directory{.offset = bytes.number<uint32_t>(end + 16),
                      .size_bytes = bytes.number<uint32_t>(end + 12),
                      .entries = bytes.number<uint16_t>(end + 10)};
  if (bytes.number<uint16_t>(end + 8) != directory.entries) reject(end, file, "it is spread over several disks");
  uint64_t directory_end = end;

  const bool has_64 = end >= kEndLocator64Bytes && bytes.number<uint32_t>(end - kEndLocator64Bytes) == kEndLocator64;
  if (has_64) {
    const uint64_t locator = end - kEndLocator64Bytes;
    const uint64_t end_64 = bytes.number<uint64_t>(locator + 8);
    if (end_64 > locator || locator - end_64 < kEndRecord64Bytes || bytes.number<uint32_t>(end_64) != kEndRecord64 ||
        bytes.number<uint64_t>(end_64 + 4) != locator - end_64 - 12) {
      reject(locator, file, "the ZIP64 end record is not where its locator says");
    }
    const Directory wide{.offset = bytes.number<uint64_t>(end_64 + 48),
                         .size_bytes = bytes.number<uint64_t>(end_64 + 40),
                         .entries = bytes.number<uint64_t>(end_64 + 32)};
    const bool agrees = (directory.offset == 0xffffffff || directory.offset == wide.offset) &&
                        (directory.size_bytes == 0xffffffff || directory.size_bytes == wide.size_bytes) &&
                        (directory.entries == 0xffff || directory.entries == wide.entries);
    if (!agrees) reject(end_64, file, "the ZIP64 end record contradicts the end record");
    if (bytes.number<uint64_t>(end_64 + 24) != wide.entries) reject(end_64, file, "it is spread over several disks");
    directory = wide;
    directory_end = end_64;
  }
  if (directory.entries > kMaxEntries) {
    reject(end, file, fmt::format("it has {} entries, and the limit is {}", directory.entries, kMaxEntries));
  }
  if (directory.offset > directory_end || directory.size_bytes != directory_end - directory.offset) {
    reject(end, file, "the directory does not end where the end record begins");
  }
  if (directory.entries * kDirectoryEntryBytes > directory.size_bytes) {
    reject(end, file, fmt::format("{} entries do not fit in a directory of {} bytes", directory.entries, directory.size_bytes));
  }
  return directory;
}

// Replaces the fields that the directory marks as 64-bit by those in the extra field, in their fixed order.
void read_extra_64(const Bytes& bytes, std::string_view file, uint64_t offset, uint64_t end, uint64_t& size, uint64_t& stored_size,
                   uint64_t& header_offset) {
  while (offset + 4 <= end) {
    const uint16_t tag = bytes.number<uint16_t>(offset);
    const uint64_t field_end = offset + 4 + bytes.number<uint16_t>(offset + 2);
    if (field_end > end) reject(offset, file, "an extra field reaches past its entry");
    uint64_t position = offset + 4;
    offset = field_end;
    if (tag != kExtra64) continue;
    for (uint64_t* field : {&size, &stored_size, &header_offset}) {
      if (*field != 0xffffffff) continue;
      if (position + 8 > field_end) reject(position, file, "a ZIP64 field lacks a 64-bit size");
      *field = bytes.number<uint64_t>(position);
      position += 8;
    }
    return;
  }
}

// Checks the entry's local header against the directory; sets where the data begins.
void locate_data(const Bytes& bytes, std::string_view file, uint64_t directory_offset, ZipEntry& entry) {
  const uint64_t at = entry.header_offset;
  const auto fault = [&](std::string_view what) { reject(at, file, fmt::format("entry '{}' {}", entry.name, what)); };
  if (at > directory_offset || directory_offset - at < kLocalHeaderBytes || bytes.number<uint32_t>(at) != kLocalHeader) {
    fault("has no local header where the directory says");
  }
  const uint16_t flags = bytes.number<uint16_t>(at + 6);
  const uint16_t name_bytes = bytes.number<uint16_t>(at + 26);
  const uint64_t extra_begin = at + kLocalHeaderBytes + name_bytes;
  entry.offset = extra_begin + bytes.number<uint16_t>(at + 28);
  if (entry.offset > directory_offset || entry.size_bytes > directory_offset - entry.offset) {
    fault(fmt::format("declares {} bytes, more than the file holds", entry.size_bytes));
  }
  if (bytes.number<uint16_t>(at + 8) != 0) fault("is compressed in its local header");
  if (bytes.text(at + kLocalHeaderBytes, name_bytes) != entry.name) fault("has another name in its local header");

  uint64_t size = bytes.number<uint32_t>(at + 22);
  uint64_t stored_size = bytes.number<uint32_t>(at + 18);
  uint64_t no_offset = 0;
  read_extra_64(bytes, file, extra_begin, entry.offset, size, stored_size, no_offset);
  const uint32_t crc = bytes.number<uint32_t>(at + 14);
  // With this flag the writer did not know sizes and CRC yet, and zeros stand in the header.
  const bool sizes_follow = flags & kFlagSizesFollowData;
  const bool size_agrees = size == entry.size_bytes && stored_size == entry.size_bytes;
  if (!size_agrees && !(sizes_follow && size == 0 && stored_size == 0)) fault("has another size in its local header");
  if (crc != entry.crc && !(sizes_follow && crc == 0)) fault("has another CRC in its local header");
}

ZipEntry read_entry(const Bytes& bytes, std::string_view file, uint64_t at, uint64_t end, uint64_t& next) {
  if (end - at < kDirectoryEntryBytes || bytes.number<uint32_t>(at) != kDirectoryEntry) {
    reject(at, file, "the directory holds fewer entries than declared");
  }
  const uint16_t flags = bytes.number<uint16_t>(at + 8);
  const uint16_t method = bytes.number<uint16_t>(at + 10);
  const uint64_t name_bytes = bytes.number<uint16_t>(at + 28);
  const uint64_t extra_begin = at + kDirectoryEntryBytes + name_bytes;
  const uint64_t extra_end = extra_begin + bytes.number<uint16_t>(at + 30);
  next = extra_end + bytes.number<uint16_t>(at + 32);
  if (next > end) reject(at, file, "an entry reaches past the directory");

  ZipEntry entry;
  entry.name = bytes.text(at + kDirectoryEntryBytes, name_bytes);
  const auto fault = [&](std::string_view what) { reject(at, file, fmt::format("entry '{}' {}", printable_entry(entry.name), what)); };
  if (const char* why = name_fault(entry.name)) reject(at, file, fmt::format("the name '{}' {}", printable_entry(entry.name), why));
  const uint32_t unix_mode = bytes.number<uint32_t>(at + 38) >> 16;
  const bool made_on_unix = bytes.number<uint16_t>(at + 4) >> 8 == 3;
  if (made_on_unix && (unix_mode & kUnixTypeMask) == kUnixSymbolicLink) fault("is a symbolic link");
  if (flags & kFlagEncrypted) fault("is encrypted");
  if (method != 0) fault(fmt::format("is compressed (method {}); toroid maps weights and needs them stored", method));

  entry.crc = bytes.number<uint32_t>(at + 16);
  uint64_t stored_size = bytes.number<uint32_t>(at + 20);
  entry.size_bytes = bytes.number<uint32_t>(at + 24);
  entry.header_offset = bytes.number<uint32_t>(at + 42);
  read_extra_64(bytes, file, extra_begin, extra_end, entry.size_bytes, stored_size, entry.header_offset);
  if (stored_size != entry.size_bytes) {
    fault(fmt::format("declares {} bytes stored as {}", entry.size_bytes, stored_size));
  }
  return entry;
}

void refuse_overlaps(const std::vector<ZipEntry>& entries, std::string_view file) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entries[a].header_offset < entries[b].header_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const ZipEntry& before = entries[order[i - 1]];
    const ZipEntry& after = entries[order[i]];
    if (before.offset + before.size_bytes > after.header_offset) {
      reject(after.header_offset, file, fmt::format("entries '{}' and '{}' overlap", before.name, after.name));
    }
  }
}

}  // namespace

ZipReader::ZipReader(std::span<const std::byte> all_bytes, std::shared_ptr<const void> owner, std::string file)
    : bytes_(all_bytes), owner_(std::move(owner)), file_(std::move(file)) {
  const Bytes bytes(bytes_, file_);
  const Directory directory = read_end_records(bytes, file_);
  const uint64_t directory_end = directory.offset + directory.size_bytes;
  entries_.reserve(directory.entries);
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    uint64_t next = 0;
    entries_.push_back(read_entry(bytes, file_, at, directory_end, next));
    locate_data(bytes, file_, directory.offset, entries_.back());
    at = next;
  }
  if (at != directory_end) reject(at, file_, "the directory holds more than the declared entries");
  refuse_overlaps(entries_, file_);
  by_name_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!by_name_.emplace(entries_[i].name, i).second) {
      reject(entries_[i].header_offset, file_, fmt::format("two entries are named '{}'", entries_[i].name));
    }
  }
}

ZipReader ZipReader::open(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  return ZipReader(bytes, std::move(file), path.string());
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> ZipReader::read(const ZipEntry& entry) const {
  const std::span<const std::byte> data = bytes_.subspan(entry.offset, entry.size_bytes);
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (crc != entry.crc) {
    reject(entry.offset, file_, fmt::format("entry '{}' is damaged: its CRC is {:08x}, not {:08x}", entry.name, crc, entry.crc));
  }
  return data;
}

std::string_view ZipReader::read_text(const ZipEntry& entry) const {
  const std::span<const std::byte> data = read(entry);
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace toroid
