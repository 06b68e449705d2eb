// The types of results as the model records them.
#pragma once

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// The type that the model records of the operator's first result. Throws Error{Unsupported} where another operator's formula has none.
inline const TensorType& required_result_type(const Decomposer& d) {
  if (!d.recorded.empty()) return d.recorded.front();
  throw Error(ErrorKind::Unsupported, "the type of a result that the model does not record decides what is computed");
}

// `x` in the dtype that the model records for result `index`, if it does.
inline Tensor as_recorded(Decomposer& d, size_t index, Tensor x) {
  return index < d.recorded.size() ? d.b.cast(x, d.recorded[index].dtype) : x;
}

}  // namespace toroid
