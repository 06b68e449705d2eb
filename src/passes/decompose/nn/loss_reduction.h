// How losses end: none, mean or sum over all elements.
#pragma once

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

enum class LossReduction { None = 0, Mean = 1, Sum = 2 };

inline LossReduction loss_reduction(const Args& a) {
  const int64_t code = a.constant("reduction");
  if (code < 0 || code > 2) throw Error(ErrorKind::InvalidModel, fmt::format("{}: reduction {}", a.schema().name, code));
  return static_cast<LossReduction>(code);
}

inline Tensor reduced(Tensor loss, LossReduction reduction) {
  if (reduction == LossReduction::None) return loss;
  Builder& b = loss.builder();
  return reduction == LossReduction::Sum ? b.sum(loss, {}) : b.mean(loss, {});
}

}  // namespace toroid
