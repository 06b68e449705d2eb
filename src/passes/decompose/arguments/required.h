// What an operator cannot do without, although its schema lets it be absent.
#pragma once

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// The dtype argument `name`. Throws Error{InvalidModel} for None.
inline DType required_dtype(const Args& a, std::string_view name) {
  if (const std::optional<DType> dtype = a.dtype(name)) return *dtype;
  throw Error(ErrorKind::InvalidModel, fmt::format("argument '{}' of {} is None, but a dtype is needed", name, a.schema().name));
}

}  // namespace toroid
