#include "base/machine/out_of_memory.h"
#include "base/format.h"

namespace toroid {
namespace {

constexpr const char* kHelp = "close other programs, raise the limit on memory (ulimit -v), or run on a larger machine";

// `words` makes the message; it, the help or their copies may want memory that there is not.
template <class Words>
[[noreturn]] void refuse(Words words, const char* help) {
  try {
    throw Error(ErrorKind::Environment, words()).help(help);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::Environment, "out of memory");  // short enough for a string to hold within itself
  }
}

}  // namespace

void out_of_memory(std::string_view doing) {
  refuse([&] { return formatted("out of memory while {}", doing); }, kHelp);
}

void out_of_memory(uint64_t bytes, std::string_view what) {
  refuse([&] { return formatted("out of memory: {} bytes for {}", bytes, what); }, kHelp);
}

void out_of_threads(std::string_view doing, const std::system_error& refusal) {
  if (refusal.code() == std::errc::not_enough_memory) out_of_memory(doing);
  if (refusal.code() != std::errc::resource_unavailable_try_again) throw;
  refuse([&] { return formatted("no more threads while {}", doing); },
         "raise the limit on threads (ulimit -u) or on memory (ulimit -v), or close other programs");
}

}  // namespace toroid
