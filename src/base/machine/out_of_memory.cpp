#include "base/machine/out_of_memory.h"
#include "base/format.h"

namespace toroid {
namespace {

constexpr const char* kHelp = "close other programs, raise the limit on memory (ulimit -v), or run on a larger machine";

// `words` makes the message; it, the help or their copies may want memory that there is not.
template <class Words, class Make>
[[noreturn]] void refuse(Words words, const char* help, Make make) {
  try {
    auto error = make(words());
    error.help(help);
    throw error;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("out of memory");  // short enough for a string to hold within itself
  }
}

OutOfMemory memory_error(std::string message) { return OutOfMemory(std::move(message)); }
Error thread_error(std::string message) { return Error(ErrorKind::Environment, std::move(message)); }

}  // namespace

void out_of_memory(std::string_view doing) {
  refuse([&] { return formatted("out of memory while {}", doing); }, kHelp, memory_error);
}

void out_of_memory(uint64_t bytes, std::string_view what) {
  refuse([&] { return formatted("out of memory: {} bytes for {}", bytes, what); }, kHelp, memory_error);
}

void out_of_threads(std::string_view doing, const std::system_error& refusal) {
  if (refusal.code() == std::errc::not_enough_memory) out_of_memory(doing);
  if (refusal.code() != std::errc::resource_unavailable_try_again) throw;
  refuse([&] { return formatted("no more threads while {}", doing); },
         "raise the limit on threads (ulimit -u) or on memory (ulimit -v), or close other programs", thread_error);
}

void refuse_typed(std::string_view doing) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    out_of_memory(doing);
  } catch (const std::system_error& refusal) {
    out_of_threads(doing, refusal);
  }
}

void refuse_typed(uint64_t bytes, std::string_view what) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    out_of_memory(bytes, what);
  }
}

}  // namespace toroid
