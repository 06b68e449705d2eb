// The functions of fmt that the command calls, compiled from fmt's headers: Debian has no archive of them.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace toroid {

// Never called. -fno-inline (CMakeLists.txt) makes functions of what is used here.
void use_text_functions(double wide, float narrow, int number) {
  fmt::print("{}{:L}{}{:L}", wide, wide, narrow, number);
  fmt::print(stderr, "{:?}", "text");
  fmt::vformat("{}", fmt::make_format_args(number));
  throw fmt::format_error("never");
}

}  // namespace toroid
