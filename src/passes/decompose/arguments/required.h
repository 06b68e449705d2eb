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

// The type that the model records of the operator's first result. Throws Error{Unsupported} where another operator's formula has none.
inline const TensorType& required_result_type(const Decomposer& d) {
  if (!d.recorded.empty()) return d.recorded.front();
  throw Error(ErrorKind::Unsupported, "the type of a result that the model does not record decides what is computed");
}

}  // namespace toroid
