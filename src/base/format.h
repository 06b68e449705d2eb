// Text from values, for code that links the C++ runtime alone:
//
//   formatted("pivot {} of a matrix of {} rows", pivot, rows)
//
// Each {} takes the next argument: text, a character, a bool, an integer, or a floating-point number, which is printed with the fewest
// digits that give it back. There are no other braces and no options; the compiler refuses another number of arguments than of places.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/language.h"

namespace toroid {

// One argument; refers to the caller's text.
class FormatArgument {
 public:
  FormatArgument(std::string_view text) : kind_(Kind::Text), text_(text) {}
  FormatArgument(const std::string& text) : FormatArgument(std::string_view(text)) {}
  FormatArgument(const char* text) : FormatArgument(std::string_view(text)) {}
  FormatArgument(char letter) : kind_(Kind::Letter), letter_(letter) {}
  FormatArgument(bool value) : FormatArgument(std::string_view(value ? "true" : "false")) {}
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer> && std::is_signed_v<Integer>, int> = 0>
  FormatArgument(Integer value) : kind_(Kind::Signed), signed_(value) {}
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer> && std::is_unsigned_v<Integer>, int> = 0>
  FormatArgument(Integer value) : kind_(Kind::Unsigned), unsigned_(value) {}
  template <class Number, std::enable_if_t<std::is_floating_point_v<Number>, int> = 0>
  FormatArgument(Number value) : kind_(Kind::Number), number_(value) {}

  void append_to(std::string& text) const;

 private:
  enum class Kind { Text, Letter, Signed, Unsigned, Number };
  Kind kind_;
  union {
    std::string_view text_;
    char letter_;
    int64_t signed_;
    uint64_t unsigned_;
    double number_;
  };
};

// T, which a parameter of this type takes no part in finding out.
template <class T>
struct NotDeducedType {
  using Type = T;
};
template <class T>
using NotDeduced = typename NotDeducedType<T>::Type;

template <class... Arguments>
struct FormatText {
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>>>
  TOROID_CONSTEVAL FormatText(const Text& literal) : text(literal) {
#if __cplusplus >= 202002L
    size_t places = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '{') continue;
      if (i + 1 == text.size() || text[i + 1] != '}') throw "a brace that is no place";
      ++places;
    }
    if (places != sizeof...(Arguments)) throw "another number of arguments than of places";
#endif
  }
  std::string_view text;
};

std::string format_arguments(std::string_view text, std::initializer_list<FormatArgument> arguments);

template <class... Arguments>
std::string formatted(FormatText<NotDeduced<Arguments>...> text, const Arguments&... arguments) {
  return format_arguments(text.text, {FormatArgument(arguments)...});
}

// 16 digits.
std::string hex(uint64_t number);

// The elements with `between` between them.
template <class Range>
std::string joined(const Range& range, std::string_view between) {
  std::string text;
  bool is_first = true;
  for (const auto& element : range) {
    if (!is_first) text += between;
    is_first = false;
    FormatArgument(element).append_to(text);
  }
  return text;
}

}  // namespace toroid
