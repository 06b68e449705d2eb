#include "cache/remote/action_result.h"

#include <algorithm>

namespace toroid {
namespace {

constexpr std::string_view kPath = "toroid";
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;  // protobuf's wire types

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void append_bytes(std::string& to, uint32_t field, std::string_view bytes) {
  append_varint(to, field << 3 | kBytes);
  append_varint(to, bytes.size());
  to += bytes;
}

struct Field {
  uint64_t number = 0;
  uint64_t varint = 0;     // of a varint
  std::string_view bytes;  // of bytes
  uint64_t type = kVarint;
};

std::optional<uint64_t> take_varint(std::string_view& rest) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The next field of a message; nullopt when it is damaged.
std::optional<Field> take_field(std::string_view& rest) {
  const std::optional<uint64_t> tag = take_varint(rest);
  if (!tag) return std::nullopt;
  Field field{.number = *tag >> 3, .varint = 0, .bytes = {}, .type = *tag & 7};
  uint64_t size = 0;
  if (field.type == kVarint) {
    const std::optional<uint64_t> value = take_varint(rest);
    if (!value) return std::nullopt;
    field.varint = *value;
  } else if (field.type == kBytes) {
    const std::optional<uint64_t> length = take_varint(rest);
    if (!length) return std::nullopt;
    size = *length;
  } else if (field.type == kFixed64 || field.type == kFixed32) {
    size = field.type == kFixed64 ? 8 : 4;
  } else {
    return std::nullopt;
  }
  if (size > rest.size()) return std::nullopt;
  field.bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return field;
}

// Visits the fields; false when the message is damaged.
template <class Visit>
bool for_each_field(std::string_view message, Visit visit) {
  while (!message.empty()) {
    const std::optional<Field> field = take_field(message);
    if (!field || !visit(*field)) return false;
  }
  return true;
}

bool is_hash(std::string_view text) { return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos; }

}  // namespace

std::string action_result(const BlobName& blob) {
  std::string digest, file, result;
  append_bytes(digest, 1, blob.hash);
  append_varint(digest, 2 << 3 | kVarint);
  append_varint(digest, blob.size);
  append_bytes(file, 1, kPath);
  append_bytes(file, 2, digest);
  append_bytes(result, 2, file);
  return result;
}

std::optional<BlobName> parse_action_result(std::string_view message) {
  std::optional<BlobName> found;
  const bool is_whole = for_each_field(message, [&](const Field& output) {
    if (output.number != 2 || output.type != kBytes) return true;
    std::string_view path;
    BlobName blob;
    const bool is_file = for_each_field(output.bytes, [&](const Field& part) {
      if (part.number == 1 && part.type == kBytes) path = part.bytes;
      if (part.number != 2 || part.type != kBytes) return true;
      return for_each_field(part.bytes, [&](const Field& digest) {
        if (digest.number == 1 && digest.type == kBytes) blob.hash = digest.bytes;
        if (digest.number == 2 && digest.type == kVarint) blob.size = digest.varint;
        return true;
      });
    });
    if (!is_file) return false;
    if (path == kPath && is_hash(blob.hash)) found = blob;
    return true;
  });
  return is_whole ? found : std::nullopt;
}

}  // namespace toroid
