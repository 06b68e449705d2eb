// For tests: regular expressions as in JavaScript. <regex> itself takes seconds of each binary that includes it, so it is compiled once
// (tests/pattern.cpp), into what every test binary links.
#pragma once

#include <string>
#include <vector>

namespace toroid {

bool has_match(const std::string& text, const std::string& pattern);  // anywhere in it
bool matches(const std::string& text, const std::string& pattern);    // as a whole
// Each match, followed by its groups.
std::vector<std::vector<std::string>> matches_in(const std::string& text, const std::string& pattern);
std::string replaced_matches(const std::string& text, const std::string& pattern, const std::string& by);

}  // namespace toroid
