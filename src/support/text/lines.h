// Lines of a text.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace toroid {

// The text without the lines of which drops(line) says so; `line` has its "\n", but for a last one that has none.
template <class Drops>
std::string without_lines(std::string_view text, const Drops& drops) {
  std::string kept;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    if (!drops(line)) kept += line;
    text.remove_prefix(line.size());
  }
  return kept;
}

}  // namespace toroid
