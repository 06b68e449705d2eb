// What std::string and std::vector throw for a wrong index, as packages have it: the C++ library's brings a function of its own that prints
// numbers. The words are the same.
#include <cstdarg>
#include <cstdio>
#include <stdexcept>

namespace std {

void __throw_out_of_range_fmt(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw out_of_range(text);
}

}  // namespace std
