// How the text form spells names.
#pragma once

#include <string>
#include <string_view>

namespace toroid {

// Letters, digits, '_' and '.', not starting with a digit or '.'; and no word with a meaning of its own.
bool is_plain_name(std::string_view name);
// "text", with backslash escapes for quotes, backslashes and control characters.
std::string quote(std::string_view text);
// name, or %"name" when it is not plain.
std::string value_name(std::string_view name);

}  // namespace toroid
