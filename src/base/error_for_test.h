// For tests: the Error that an action throws.
#pragma once

#include <functional>

#include "base/error.h"

namespace toroid {

// "no error", of kind Internal, when it throws none.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::Internal, "no error");
}

}  // namespace toroid
