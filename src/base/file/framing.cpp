#include "base/file/framing.h"

namespace toroid {
namespace {

constexpr size_t kNumberBytes = sizeof(uint64_t);

}  // namespace

void append_number(std::string& bytes, uint64_t number) {
  for (size_t i = 0; i < kNumberBytes; ++i) bytes += static_cast<char>(number >> 8 * i & 0xff);
}

void append_sized(std::string& bytes, std::string_view text) {
  append_number(bytes, text.size());
  bytes += text;
}

std::optional<uint64_t> take_number(std::string_view& bytes) {
  if (bytes.size() < kNumberBytes) return std::nullopt;
  uint64_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) number |= uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
  bytes.remove_prefix(kNumberBytes);
  return number;
}

std::optional<std::string_view> take_sized(std::string_view& bytes) {
  std::string_view rest = bytes;
  const std::optional<uint64_t> size = take_number(rest);
  if (!size || *size > rest.size()) return std::nullopt;
  bytes = rest.substr(*size);
  return rest.substr(0, *size);
}

}  // namespace toroid
