#include "base/format.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace toroid {
namespace {

template <class Integer>
void append_integer(std::string& text, Integer value) {
  char digits[24];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, end.ptr);
}

// As std::to_chars with the shortest form. That brings 130 KB of tables into each package, which prints numbers in messages alone; the C
// library, asked for more and more digits until they give the number back, has them anyway.
void append_number(std::string& text, double number, bool is_plain) {
  if (!std::isfinite(number)) {
    text += std::isnan(number) ? (std::signbit(number) ? "-nan" : "nan") : number < 0 ? "-inf" : "inf";
    return;
  }
  // "-d.ddde+xx", with a point that is the locale's.
  char written[40];
  for (int digits = 0; digits <= 16; ++digits) {
    std::snprintf(written, sizeof written, "%.*e", digits, number);
    if (std::strtod(written, nullptr) == number) break;
  }
  const char* const exponent_text = std::strchr(written, 'e');
  std::string digits;
  for (const char* at = written; at != exponent_text; ++at) {
    if (*at >= '0' && *at <= '9') digits += *at;
  }
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  if (std::signbit(number)) text += '-';
  if (!is_plain) {
    text += digits[0];
    if (digits.size() > 1) text.append(".").append(digits, 1);
    text += exponent_text;
    return;
  }
  const int exponent = std::atoi(exponent_text + 1), last = static_cast<int>(digits.size()) - 1;
  if (exponent < 0) text.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  if (exponent >= last) text.append(digits).append(static_cast<size_t>(exponent - last), '0');
  if (exponent >= 0 && exponent < last)
    text.append(digits, 0, static_cast<size_t>(exponent) + 1).append(".").append(digits, static_cast<size_t>(exponent) + 1);
}

}  // namespace

void FormatArgument::append_to(std::string& text) const {
  switch (kind_) {
    case Kind::Text: text += text_; return;
    case Kind::Letter: text += letter_; return;
    case Kind::Signed: append_integer(text, signed_); return;
    case Kind::Unsigned: append_integer(text, unsigned_); return;
    case Kind::Number: {
      const double size = std::abs(number_);
      const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16) || !std::isfinite(number_);
      append_number(text, number_, is_plain);
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
