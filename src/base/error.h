// Errors with context and a next step.
//
// Three cases, never mixed. The model, the options or the environment is at fault, or a tool failed: throw Error. toroid
// is at fault: TOROID_CHECK stops with a report. Callers add context with a scope:
//
//   ErrorContext context("importing {}", path.string());
//   throw Error(ErrorKind::Unsupported, "operator 'Unique' is not supported").help("'toroid ops --missing {}'", path);
//
// prints as
//
//   error: operator 'Unique' is not supported
//     while importing encoder.onnx
//     help: 'toroid ops --missing encoder.onnx'
#pragma once

#include <exception>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/format.h"

namespace toroid {

enum class ErrorKind {
  InvalidModel,   // the model file is malformed or contradicts itself
  Unsupported,    // valid, but toroid cannot compile it
  InvalidInput,   // a tensor or argument does not fit the program
  InvalidOption,  // the command line or the options
  Environment,    // files, permissions, missing tools, memory
  ToolFailed,     // a compiler or another child process failed
  Internal,       // a bug in toroid
};

std::string_view to_string(ErrorKind kind);

// What a user sees when something is wrong. Copies the ErrorContext scopes alive on this thread when it is made.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);

  // Adds a line that locates the fault ("at node 'dedup'"), innermost first.
  Error& at(std::string location);
  // Sets the next step for the user.
  Error& help(std::string text);

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::vector<std::string>& locations() const { return locations_; }
  const std::string& help_text() const { return help_; }
  // "error: …" with indented location and help lines, without a trailing newline.
  std::string report() const;
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void refresh();

  ErrorKind kind_;
  std::string message_;
  std::vector<std::string> locations_;
  std::string help_;
  std::string what_;
};

// While alive, errors made on this thread carry "while <text>".
class ErrorContext {
 public:
  template <class... Args>
  explicit ErrorContext(FormatText<NotDeduced<Args>...> format, const Args&... args) : ErrorContext(Text{formatted(format, args...)}) {}
  ~ErrorContext();
  ErrorContext(const ErrorContext&) = delete;
  ErrorContext& operator=(const ErrorContext&) = delete;

 private:
  struct Text {
    std::string value;
  };
  explicit ErrorContext(Text text);
};

// As ErrorContext, for scopes that are entered often and whose text is long: it is made only for an error. `text` must not make errors.
class LazyErrorContext {
 public:
  explicit LazyErrorContext(std::function<std::string()> text);
  ~LazyErrorContext();
  LazyErrorContext(const LazyErrorContext&) = delete;
  LazyErrorContext& operator=(const LazyErrorContext&) = delete;
};

// Throws Error{Internal}: the message names the check and its place, and asks for a report.
[[noreturn]] void internal_error(const char* file, int line, const char* condition);
[[noreturn]] void internal_error_with(const char* file, int line, const char* condition, std::string_view text,
                                      std::initializer_list<FormatArgument> arguments);
template <class... Arguments>
[[noreturn]] inline void internal_error(const char* file, int line, const char* condition, FormatText<NotDeduced<Arguments>...> text,
                                        const Arguments&... arguments) {
  internal_error_with(file, line, condition, text.text, {FormatArgument(arguments)...});
}

}  // namespace toroid

// A broken invariant of toroid itself: TOROID_CHECK(condition), or with up to nine more arguments, which are those of formatted().
#define TOROID_CHECK(...)                                                                                                            \
  TOROID_CHECK_NAMED(__VA_ARGS__, WITH_TEXT, WITH_TEXT, WITH_TEXT, WITH_TEXT, WITH_TEXT, WITH_TEXT, WITH_TEXT, WITH_TEXT, WITH_TEXT, \
                     ALONE, )                                                                                                        \
  (__VA_ARGS__)
#define TOROID_CHECK_NAMED(a, b, c, d, e, f, g, h, i, j, name, ...) TOROID_CHECK_##name
#define TOROID_CHECK_ALONE(condition)                                                                \
  do {                                                                                               \
    if (__builtin_expect(!(condition), 0)) ::toroid::internal_error(__FILE__, __LINE__, #condition); \
  } while (false)
#define TOROID_CHECK_WITH_TEXT(condition, ...)                                                                    \
  do {                                                                                                            \
    if (__builtin_expect(!(condition), 0)) ::toroid::internal_error(__FILE__, __LINE__, #condition, __VA_ARGS__); \
  } while (false)
