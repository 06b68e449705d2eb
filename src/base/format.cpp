#include "base/format.h"

#include <charconv>
#include <cmath>

namespace toroid {
namespace {

// Enough for any number in the forms below: 17 digits before or behind zeros.
constexpr size_t kLongest = 64;

template <class... Form>
void append_number(std::string& text, auto value, Form... form) {
  char digits[kLongest];
  const std::to_chars_result end = std::to_chars(digits, digits + kLongest, value, form...);
  text.append(digits, end.ptr);
}

}  // namespace

void FormatArgument::append_to(std::string& text) const {
  switch (kind_) {
    case Kind::Text: text += text_; return;
    case Kind::Letter: text += letter_; return;
    case Kind::Signed: append_number(text, signed_); return;
    case Kind::Unsigned: append_number(text, unsigned_); return;
    case Kind::Number: {
      const double size = std::abs(number_);
      const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16) || !std::isfinite(number_);
      append_number(text, number_, is_plain ? std::chars_format::fixed : std::chars_format::scientific);
      return;
    }
  }
}

std::string hex(uint64_t number) {
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[number >> shift & 15];
  return digits;
}

std::string format_arguments(std::string_view text, std::initializer_list<FormatArgument> arguments) {
  std::string result;
  for (const FormatArgument& argument : arguments) {
    const size_t place = text.find("{}");
    result += text.substr(0, place);
    argument.append_to(result);
    text.remove_prefix(place + 2);
  }
  result += text;
  return result;
}

}  // namespace toroid
