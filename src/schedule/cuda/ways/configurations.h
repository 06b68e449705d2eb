// What a call of a user's kernel in Triton chooses from (CallStep::choice): "configuration0", "configuration1", … of its file.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace toroid::schedule {

inline constexpr std::string_view kConfiguration = "configuration";
inline std::string configuration_name(size_t number) { return std::string(kConfiguration) + std::to_string(number); }
// Its number; one that no file has for another text.
inline size_t configuration_of(std::string_view choice) {
  size_t number = 0;
  if (!choice.starts_with(kConfiguration)) return std::string_view::npos;
  choice.remove_prefix(kConfiguration.size());
  const auto [end, problem] = std::from_chars(choice.data(), choice.data() + choice.size(), number);
  return problem == std::errc() && end == choice.data() + choice.size() ? number : std::string_view::npos;
}

}  // namespace toroid::schedule
