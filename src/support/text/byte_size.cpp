#include "support/text/byte_size.h"

#include <cctype>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {

uint64_t parse_byte_size(std::string_view text) {
  uint64_t number = 0;
  size_t digits = 0;
  while (digits < text.size() && digits < 15 && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) {
    number = number * 10 + static_cast<uint64_t>(text[digits++] - '0');
  }
  const std::string_view unit = text.substr(digits);
  const size_t power = std::string_view("_KMGT").find(unit.empty() ? '_' : unit[0]);
  if (digits == 0 || unit.size() > 1 || power > 4 || unit == "_" || number > (UINT64_MAX >> (10 * power))) {
    throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is no size in bytes", text))
        .help("write a whole number with an optional K, M, G or T, as in 500M");
  }
  return number << (10 * power);
}

std::string byte_size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2, kUnits[unit]);
}

}  // namespace toroid
