// Reads ZIP archives whose entries are stored without compression, in place.
//
// PyTorch stores every entry of a `.pt2` uncompressed and aligned, so a weight is just a range of the mapped file:
// nothing is unpacked, nothing is copied, and no declared size can make us allocate. We parse the directory ourselves
// instead of through minizip because we want those ranges, and because untrusted archives need checks that unzip
// libraries do not make.
//
// An archive is refused as a whole ("archive rejected: …") when
//   - a record lies outside the file, or the directory does not end where the end record says (appended or cut files)
//   - an entry is compressed or encrypted, or its compressed and uncompressed sizes differ
//   - entries overlap each other or the directory, or two have one name
//   - a local header disagrees with the directory
//   - a name is empty, absolute, or holds '..', a backslash or a control character, or the entry is a symbolic link
//   - there are more than 65,535 entries, or several disks
// ZIP64 records are read (archives beyond 4 GiB have them) under the same checks. An entry's CRC is checked when it
// is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace toroid {

struct ZipEntry {
  std::string name;
  uint64_t header_offset = 0;  // of the local header
  uint64_t offset = 0;         // of the first byte of data
  uint64_t size_bytes = 0;
  uint32_t crc = 0;
};

class ZipReader {
 public:
  // `owner` keeps `bytes` alive; `file` names the archive in errors.
  ZipReader(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string file);
  static ZipReader open(const std::filesystem::path& path);
  ZipReader(ZipReader&&) = default;  // not copied: by_name_ refers to the names in entries_

  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the directory's order
  const ZipEntry* find(std::string_view name) const;

  // The entry's bytes in the mapped file. Throws when the CRC does not match.
  std::span<const std::byte> read(const ZipEntry& entry) const;
  std::string_view read_text(const ZipEntry& entry) const;

  const std::shared_ptr<const void>& owner() const { return owner_; }
  const std::string& file() const { return file_; }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::string file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace toroid
