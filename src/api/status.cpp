#include "api/status.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/affixes.h"
#include "base/machine/out_of_memory.h"

namespace toroid::api {
namespace {

void keep(std::string& message, std::string_view text) noexcept {
  constexpr std::string_view kPrefix = "error: ";
  try {
    message = starts_with(text, kPrefix) ? text.substr(kPrefix.size()) : text;
  } catch (const std::exception&) {
    message.clear();
  }
}

ToroidStatus status_of(ErrorKind kind, ToroidStatus of_invalid_input) {
  switch (kind) {
    case ErrorKind::InvalidModel: return TOROID_ERROR_PACKAGE;
    case ErrorKind::Unsupported: return TOROID_ERROR_UNSUPPORTED;
    case ErrorKind::InvalidInput: return of_invalid_input;
    case ErrorKind::InvalidOption: return TOROID_ERROR_ARGUMENT;
    case ErrorKind::Environment:
    case ErrorKind::ToolFailed: return TOROID_ERROR_ENVIRONMENT;
    case ErrorKind::Internal: return TOROID_ERROR_INTERNAL;
  }
  return TOROID_ERROR_INTERNAL;
}

}  // namespace

void fail_with(ToroidStatus status, std::string_view help, std::string_view text, std::initializer_list<FormatArgument> arguments) {
  Refusal refusal(status, format_arguments(text, arguments));
  if (!help.empty()) refusal.help(std::string(help));
  throw refusal;
}

ToroidStatus status_of_current_exception(ToroidStatus of_invalid_input, std::string& message) noexcept {
  try {
    throw;
  } catch (const Refusal& refusal) {
    keep(message, refusal.what());
    return refusal.status();
  } catch (const OutOfMemory& error) {
    keep(message, error.what());
    return TOROID_ERROR_MEMORY;
  } catch (const Error& error) {
    keep(message, error.what());
    return status_of(error.kind(), of_invalid_input);
  } catch (const std::bad_alloc&) {
    keep(message, "out of memory");
    return TOROID_ERROR_MEMORY;
  } catch (const std::exception& error) {
    keep(message, error.what());
    return TOROID_ERROR_INTERNAL;
  } catch (...) {
    keep(message, "an exception without words");
    return TOROID_ERROR_INTERNAL;
  }
}

void write_message(const std::string& text, char* message, size_t message_size) noexcept {
  if (message == nullptr || message_size == 0) return;
  const size_t length = std::min(text.size(), message_size - 1);
  std::memcpy(message, text.data(), length);
  message[length] = '\0';
}

}  // namespace toroid::api
