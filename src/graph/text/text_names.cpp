#include "graph/text/text_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include <fmt/format.h>

namespace toroid {

bool is_plain_name(std::string_view name) {
  constexpr std::string_view kWords[] = {"return", "sym", "none", "true", "false", "inf", "nan"};
  auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  auto is_part = [&](char c) { return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '.'; };
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_part) &&
         std::find(std::begin(kWords), std::end(kWords), name) == std::end(kWords);
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string value_name(std::string_view name) { return is_plain_name(name) ? std::string(name) : "%" + quote(name); }

}  // namespace toroid
