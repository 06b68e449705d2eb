// The argument `reduction` of losses.
#pragma once

#include <fmt/format.h>

#include "base/error.h"
#include "formula/nn/loss.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

inline formula::LossReduction loss_reduction(const Args& a) {
  const int64_t code = a.constant("reduction");
  if (code < 0 || code > 2) throw Error(ErrorKind::InvalidModel, fmt::format("{}: reduction {}", a.schema().name, code));
  return static_cast<formula::LossReduction>(code);
}

}  // namespace toroid
