#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/machine/per_thread.h"

#include <variant>

#include "base/affixes.h"

namespace toroid {
namespace {
PerThread<std::vector<std::variant<std::string, std::function<std::string()>>>> context_stack;

const std::string& text_of(const std::string& text) { return text; }
std::string text_of(const std::function<std::string()>& text) { return text(); }
}  // namespace

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::InvalidModel: return "invalid model";
    case ErrorKind::Unsupported: return "unsupported";
    case ErrorKind::InvalidInput: return "invalid input";
    case ErrorKind::InvalidOption: return "invalid option";
    case ErrorKind::Environment: return "environment";
    case ErrorKind::ToolFailed: return "tool failed";
    case ErrorKind::Internal: return "internal";
  }
  return "unknown";
}

// An error about a lack of memory is made while there is little: it then does without its context, and without more text than a string
// holds within itself.
Error::Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {
  try {
    const auto& scopes = context_stack.get();
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      locations_.push_back(std::visit([](const auto& text) { return "while " + text_of(text); }, *scope));
    }
    refresh();
  } catch (const std::bad_alloc&) {
    locations_.clear();
    what_ = "out of memory";
  }
}

Error& Error::at(std::string location) {
  size_t position = 0;
  while (position < locations_.size() && !starts_with(locations_[position], "while ")) ++position;
  locations_.insert(locations_.begin() + static_cast<ptrdiff_t>(position), std::move(location));
  refresh();
  return *this;
}

Error& Error::help(std::string text) {
  help_ = std::move(text);
  refresh();
  return *this;
}

std::string Error::report() const { return what_; }

void Error::refresh() {
  what_ = "error: " + message_;
  for (const std::string& location : locations_) what_ += "\n  " + location;
  if (!help_.empty()) what_ += "\n  help: " + help_;
}

ErrorContext::ErrorContext(Text text) { context_stack.get().emplace_back(std::move(text.value)); }
ErrorContext::~ErrorContext() { context_stack.get().pop_back(); }
LazyErrorContext::LazyErrorContext(std::function<std::string()> text) { context_stack.get().emplace_back(std::move(text)); }
LazyErrorContext::~LazyErrorContext() { context_stack.get().pop_back(); }

void fail_with(ErrorKind kind, std::string_view help, std::string_view text, std::initializer_list<FormatArgument> arguments) {
  Error error(kind, format_arguments(text, arguments));
  if (!help.empty()) error.help(std::string(help));
  throw error;
}

void internal_error_with(const char* file, int line, const char* condition, std::string_view text,
                         std::initializer_list<FormatArgument> arguments) {
  fail(ErrorKind::Internal, Help{"please report this with the model and the command that led here"},
       "toroid is at fault: check '{}' failed at {}:{}{}{}", condition, file, line, text.empty() ? "" : ": ",
       format_arguments(text, arguments));
}

void internal_error(const char* file, int line, const char* condition) { internal_error_with(file, line, condition, "", {}); }

}  // namespace toroid
