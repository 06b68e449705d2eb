// Errors at the border: nothing throws across it. A ToroidStatus tells the kind, and words are kept where the caller finds them.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "base/fail.h"
#include "toroid/toroid.h"

namespace toroid::api {

// What the caller did wrong, with the status to give for it.
class Refusal : public Error {
 public:
  Refusal(ToroidStatus status, std::string message) : Error(ErrorKind::InvalidInput, std::move(message)), status_(status) {}
  ToroidStatus status() const { return status_; }
  Refusal& help(std::string text) {
    Error::help(std::move(text));
    return *this;
  }

 private:
  ToroidStatus status_;
};

// Throw a Refusal, as those of base/fail.h throw an Error.
[[noreturn]] void fail_with(ToroidStatus status, std::string_view help, std::string_view text,
                            std::initializer_list<FormatArgument> arguments);
template <class... Arguments>
[[noreturn]] inline void fail(ToroidStatus status, FormatText<NotDeduced<Arguments>...> text, const Arguments&... arguments) {
  fail_with(status, "", text.text, {FormatArgument(arguments)...});
}
template <class... Arguments>
[[noreturn]] inline void fail(ToroidStatus status, Help help, FormatText<NotDeduced<Arguments>...> text, const Arguments&... arguments) {
  fail_with(status, help.text, text.text, {FormatArgument(arguments)...});
}

// The status of the exception that is being handled, and what it says. `of_invalid_input`: what Error{InvalidInput} means there.
ToroidStatus status_of_current_exception(ToroidStatus of_invalid_input, std::string& message) noexcept;

// Writes as much as there is room for, with a zero at the end.
void write_message(const std::string& text, char* message, size_t message_size) noexcept;

// Runs f, and keeps the words of a failure in `message`.
template <class F>
ToroidStatus guarded(ToroidStatus of_invalid_input, std::string& message, F&& f) noexcept {
  try {
    f();
    return TOROID_OK;
  } catch (...) {
    return status_of_current_exception(of_invalid_input, message);
  }
}
template <class F>
ToroidStatus guarded(ToroidStatus of_invalid_input, char* message, size_t message_size, F&& f) noexcept {
  std::string text;
  const ToroidStatus status = guarded(of_invalid_input, text, f);
  write_message(text, message, message_size);
  return status;
}

}  // namespace toroid::api
