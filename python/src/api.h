// toroid's two tables, and its errors as Python's.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "toroid/toroid_compiler.h"

namespace toroid::python {

namespace nb = nanobind;

const ToroidApi& run_side();
const ToroidCompilerApi& compiler();

// A struct of toroid.h with its size, and all else its default.
template <class Struct>
Struct sized() {
  Struct result{};
  result.size = sizeof result;
  return result;
}

// Room for what a function of the tables says.
struct Message {
  std::array<char, 16384> text{};
  char* data() { return text.data(); }
  static constexpr size_t size() { return sizeof text; }
};

// What failed while the GIL was not held.
struct StatusError {
  ToroidStatus status;
  std::string message;
};

// Raises the class of toroid.errors that is for the status.
[[noreturn]] void raise(ToroidStatus status, const char* message);
inline void check(ToroidStatus status, const char* message) {
  if (status != TOROID_OK) raise(status, message);
}
// An input that cannot be taken: InputError, of a tensor on another device DeviceError, InputTypeError of what is no array.
[[noreturn]] void raise_named(const char* class_name, const std::string& message);

}  // namespace toroid::python
