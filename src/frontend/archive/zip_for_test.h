// Builds ZIP archives byte by byte for tests, right ones and wrong ones.
//
//   ZipForTest zip;
//   zip.add("m/models/model.json", "{}");
//   zip.entries.back().declared_size = 1u << 31;  // a lie
//   std::string bytes = zip.build();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zlib.h>

namespace toroid {

struct ZipForTest {
  struct Entry {
    std::string name;
    std::string data;
    uint16_t method = 0;
    uint16_t flags = 0;
    uint32_t unix_mode = 0;
    bool wide = false;                             // sizes and offset in ZIP64 extra fields
    std::optional<uint64_t> declared_size;         // in both headers
    std::optional<uint64_t> declared_stored_size;  // in the directory
    std::optional<uint32_t> crc;
    std::optional<std::string> local_name;
    std::optional<uint64_t> header_offset;  // in the directory
  };

  std::vector<Entry> entries;
  bool wide_end = false;  // writes ZIP64 end records
  std::optional<uint64_t> declared_entries;
  std::optional<uint64_t> directory_offset;
  std::string comment;

  Entry& add(std::string name, std::string data) {
    Entry& entry = entries.emplace_back();
    entry.name = std::move(name);
    entry.data = std::move(data);
    return entry;
  }

  std::string build() const {
    std::string out;
    std::string directory;
    for (const Entry& e : entries) {
      const uint64_t at = out.size();
      const uint64_t size = e.declared_size.value_or(e.data.size());
      const uint64_t stored = e.declared_stored_size.value_or(size);
      const uint32_t crc =
          e.crc.value_or(static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(e.data.data()), static_cast<uInt>(e.data.size()))));
      const uint64_t offset = e.header_offset.value_or(at);
      const std::string local_name = e.local_name.value_or(e.name);

      std::string extra;
      if (e.wide) put(put(put(put(extra, 2, 1), 2, 16), 8, size), 8, size);
      put(put(put(put(put(out, 4, 0x04034b50), 2, 20), 2, e.flags), 2, e.method), 4, 0);
      put(put(put(out, 4, crc), 4, e.wide ? 0xffffffff : size), 4, e.wide ? 0xffffffff : size);
      put(put(out, 2, local_name.size()), 2, extra.size());
      out += local_name + extra + e.data;

      extra.clear();
      if (e.wide) put(put(put(put(put(extra, 2, 1), 2, 24), 8, size), 8, stored), 8, offset);
      put(put(put(directory, 4, 0x02014b50), 2, 3 << 8 | 20), 2, 20);
      put(put(put(put(directory, 2, e.flags), 2, e.method), 4, 0), 4, crc);
      put(put(directory, 4, e.wide ? 0xffffffff : stored), 4, e.wide ? 0xffffffff : size);
      put(put(put(put(directory, 2, e.name.size()), 2, extra.size()), 2, 0), 4, 0);
      put(put(directory, 4, e.unix_mode << 16), 4, e.wide ? 0xffffffff : offset);
      directory += e.name + extra;
    }
    const uint64_t at = directory_offset.value_or(out.size());
    const uint64_t count = declared_entries.value_or(entries.size());
    out += directory;
    if (wide_end) {
      const uint64_t end = out.size();
      put(put(put(put(out, 4, 0x06064b50), 8, 44), 4, 0), 8, 0);
      put(put(put(put(out, 8, count), 8, count), 8, directory.size()), 8, at);
      put(put(put(put(out, 4, 0x07064b50), 4, 0), 8, end), 4, 1);
    }
    const uint64_t narrow_count = wide_end ? 0xffff : count;
    put(put(put(put(out, 4, 0x06054b50), 4, 0), 2, narrow_count), 2, narrow_count);
    put(put(put(out, 4, wide_end ? 0xffffffff : directory.size()), 4, wide_end ? 0xffffffff : at), 2, comment.size());
    return out + comment;
  }

 private:
  static std::string& put(std::string& out, int bytes, uint64_t value) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  }
};

}  // namespace toroid
