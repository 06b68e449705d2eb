// How texts begin and end: C++20's starts_with and ends_with, for source packages are C++17.
#pragma once

#include <string_view>

namespace toroid {

constexpr bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }
constexpr bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace toroid
