// Numbers that users write.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace toroid {

// The text as a number from 0 on, in decimal digits alone; none where it is none, or has more than 63 bits.
inline std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace toroid
