// What convolutions and their gradients ask of their numbers.
#pragma once

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// Throws Error{InvalidModel} for a stride or dilation below 1 and for a padding below 0.
inline void require_geometry(const Sizes& stride, const Sizes& dilation, const Sizes& padding) {
  const auto require_least = [](const Sizes& sizes, int64_t least, std::string_view name) {
    for (sym::Expr size : sizes) {
      if (!sym::known_lt(size, least)) continue;
      throw Error(ErrorKind::InvalidModel,
                  fmt::format("a convolution's {} is {}, but must be {} or more", name, sym::to_string(size), least));
    }
  };
  require_least(stride, 1, "stride");
  require_least(dilation, 1, "dilation");
  require_least(padding, 0, "padding");
}

}  // namespace toroid
