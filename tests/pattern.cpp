#include "support/pattern_for_test.h"

#include <regex>

namespace toroid {

bool has_match(const std::string& text, const std::string& pattern) { return std::regex_search(text, std::regex(pattern)); }
bool matches(const std::string& text, const std::string& pattern) { return std::regex_match(text, std::regex(pattern)); }

std::vector<std::vector<std::string>> matches_in(const std::string& text, const std::string& pattern) {
  std::vector<std::vector<std::string>> result;
  const std::regex compiled(pattern);
  for (std::sregex_iterator found(text.begin(), text.end(), compiled), end; found != end; ++found) {
    result.emplace_back(found->begin(), found->end());
  }
  return result;
}

std::string replaced_matches(const std::string& text, const std::string& pattern, const std::string& by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

}  // namespace toroid
