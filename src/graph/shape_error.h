// How a Builder complains of sizes (internal to graph/).
#pragma once

#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"

namespace toroid {

[[noreturn]] inline void shape_error(std::string message) { throw Error(ErrorKind::InvalidModel, std::move(message)); }

// What a model's arguments, not toroid, may break.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) [[unlikely]]
    shape_error(fmt::format(format, std::forward<Args>(args)...));
}

inline std::string shape_text(const Sizes& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i > 0 ? ", " : "") + sym::to_string(sizes[i]);
  return text + "]";
}

}  // namespace toroid
