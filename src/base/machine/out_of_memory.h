// A lack of memory as an Error.
//
// Code in general lets std::bad_alloc pass. The functions that users call give it a type and say what they were doing; whoever asks
// for much at once says for how much:
//
//   return with_typed_memory("compiling", [&] { ... });            error: out of memory while compiling
//   block = asking_for(size, "a tensor", [&] { ... });             error: out of memory: 4096 bytes for a tensor
//
// Where there is not even memory for these words the error is "out of memory" alone.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace toroid {

// Error{Environment}.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(std::string message) : Error(ErrorKind::Environment, std::move(message)) {}
};

[[noreturn]] void out_of_memory(std::string_view doing);
[[noreturn]] void out_of_memory(uint64_t bytes, std::string_view what);
// The same for a thread that the system refuses; any other refusal is thrown again.
[[noreturn]] void out_of_threads(std::string_view doing, const std::system_error& refusal);

// In a handler of any exception: throws what these two functions say, or it again. Out of line, for each of their calls is an instance.
[[noreturn]] void refuse_typed(std::string_view doing);
[[noreturn]] void refuse_typed(uint64_t bytes, std::string_view what);

// What `f` gives. Throws Error{Environment} in the place of a std::bad_alloc, and of the std::system_error of a thread that cannot be
// started.
template <class F>
decltype(auto) with_typed_memory(std::string_view doing, F&& f) {
  try {
    return f();
  } catch (...) {
    refuse_typed(doing);
  }
}

// What `f`, which allocates `bytes` at once, gives. Throws Error{Environment} in the place of a std::bad_alloc.
template <class F>
decltype(auto) asking_for(uint64_t bytes, std::string_view what, F&& f) {
  try {
    return f();
  } catch (...) {
    refuse_typed(bytes, what);
  }
}

}  // namespace toroid
