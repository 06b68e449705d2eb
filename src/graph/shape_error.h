// How a Builder complains of sizes (internal to graph/).
#pragma once

#include <string>

#include "graph/builder.h"
#include "support/error.h"

namespace toroid {

[[noreturn]] inline void shape_error(std::string message) { throw Error(ErrorKind::InvalidModel, std::move(message)); }

inline std::string shape_text(const Sizes& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i > 0 ? ", " : "") + sym::to_string(sizes[i]);
  return text + "]";
}

}  // namespace toroid
