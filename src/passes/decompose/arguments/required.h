// What arguments must be beside what their schema says.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// Throws Error{InvalidModel} with this message unless `holds`.
template <class... Values>
void require(bool holds, fmt::format_string<Values...> format, Values&&... values) {
  if (!holds) throw Error(ErrorKind::InvalidModel, fmt::format(format, std::forward<Values>(values)...));
}

// The same with the operator's name in front.
inline void demand(const Args& a, bool holds, std::string_view what) { require(holds, "{}: {}", a.schema().name, what); }

// The dtype argument `name`. Throws Error{InvalidModel} for None.
inline DType required_dtype(const Args& a, std::string_view name) {
  if (const std::optional<DType> dtype = a.dtype(name)) return *dtype;
  throw Error(ErrorKind::InvalidModel, fmt::format("argument '{}' of {} is None, but a dtype is needed", name, a.schema().name));
}

}  // namespace toroid
