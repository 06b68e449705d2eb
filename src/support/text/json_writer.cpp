#include "support/text/json_writer.h"

#include <cmath>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {
namespace {

bool continues(std::string_view text, size_t at) { return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; }

// Of the UTF-8 sequence that `text` starts with; 0 where it is none (RFC 3629: no overlong forms, no surrogates, up to U+10FFFF).
size_t sequence_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (!continues(text, i)) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_wrong = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) || (lead == 0xf0 && second < 0x90) ||
                        (lead == 0xf4 && second >= 0x90);
  return is_wrong ? 0 : size;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const size_t size = sequence_bytes(text);
    const char c = text[0];
    if (size == 0) {
      result += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      result.append({'\\', c});
    } else if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result + "\"";
}

void JsonWriter::begin(char bracket) {
  write(std::string_view(&bracket, 1));
  open_ += bracket == '{' ? '}' : ']';
}

void JsonWriter::end() {
  TOROID_CHECK(!open_.empty(), "nothing is open in '{}'", text_);
  text_ += open_.back();
  open_.pop_back();
}

void JsonWriter::write(std::string_view text) {
  const bool is_first = text_.empty() || text_.back() == '{' || text_.back() == '[' || text_.back() == ':';
  if (!is_first) text_ += ',';
  text_ += text;
}

void JsonWriter::write_key(std::string_view key) {
  write(json_string(key));
  text_ += ':';
}

void JsonWriter::write_number(double value) { write(std::isfinite(value) ? fmt::format("{}", value) : "null"); }

}  // namespace toroid
