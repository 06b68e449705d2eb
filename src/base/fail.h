// Throws an Error in one call:
//
//   fail(ErrorKind::InvalidInput, "{} has {} dimensions", name, rank);
//   fail(ErrorKind::InvalidInput, Help{"copy it again"}, "{} is damaged", path);
//
// For code that each package holds: where it is written there are the arguments and a call, and neither texts to be freed nor what frees
// them.
#pragma once

#include "base/error.h"

namespace toroid {

// The next step for the user.
struct Help {
  std::string_view text;
};

[[noreturn]] void fail_with(ErrorKind kind, std::string_view help, std::string_view text, std::initializer_list<FormatArgument> arguments);

template <class... Arguments>
[[noreturn]] inline void fail(ErrorKind kind, FormatText<NotDeduced<Arguments>...> text, const Arguments&... arguments) {
  fail_with(kind, "", text.text, {FormatArgument(arguments)...});
}
template <class... Arguments>
[[noreturn]] inline void fail(ErrorKind kind, Help help, FormatText<NotDeduced<Arguments>...> text, const Arguments&... arguments) {
  fail_with(kind, help.text, text.text, {FormatArgument(arguments)...});
}

}  // namespace toroid
