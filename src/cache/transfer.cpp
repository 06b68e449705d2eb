#include "cache/transfer.h"

#include <cstring>

#include "support/error.h"
#include "support/file.h"
#include "support/hash.h"

namespace toroid {
namespace {

constexpr std::string_view kMagic = "TOROIDX1";
constexpr uint64_t kEnd = UINT64_MAX;
constexpr size_t kKeyDigits = 64;

void append_number(std::string& bytes, uint64_t number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof number); }

// Takes from the front of a file; what is missing is damage.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text), size_(text.size()) {}
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) refuse("the file ends within an entry");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  uint64_t number() {
    uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool is_empty() const { return rest_.empty(); }
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorKind::InvalidInput, fmt::format("not a whole export of a cache: {}", why))
        .at(fmt::format("before byte {}", size_ - rest_.size()))
        .help("write it again with 'toroid cache export'");
  }

 private:
  std::string_view rest_;
  size_t size_;
};

}  // namespace

uint64_t export_entries(Store& store, const std::filesystem::path& path) {
  std::string bytes(kMagic);
  uint64_t count = 0;
  store.for_each([&](const StoreEntry& entry) {
    if (entry.key.kind == "probe") return;
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
  const std::string_view text = file.text();
  Reader reader(text);
  if (!text.starts_with(kMagic)) reader.refuse("it does not start as one");
  reader.take(kMagic.size());
  for (uint64_t count = 0;; ++count) {
    Reader start = reader;
    const uint64_t kind = reader.number(), parts = reader.number(), bytes = reader.number();
    if (kind == kEnd && parts == kEnd && bytes == kEnd) {
      if (!reader.is_empty()) reader.refuse("something follows its end");
      return count;
    }
    CacheKey key;
    key.hex = reader.take(kKeyDigits);
    key.kind = reader.take(kind);
    key.parts = reader.take(parts);
    const std::string_view blob = reader.take(bytes);
    const Digest digest = sha256(start.take(3 * sizeof(uint64_t) + kKeyDigits + kind + parts + bytes));
    if (std::memcmp(reader.take(digest.bytes.size()).data(), digest.bytes.data(), digest.bytes.size()) != 0) {
      reader.refuse("an entry's checksum does not match");
    }
    store.put(key, blob);
  }
}

}  // namespace toroid
