// Functions of rows whose operators have one tensor, `self`, and a formula that takes nothing else.
//
//   {"aten::silu", of_self<formula::silu>},
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

template <Tensor (*formula)(Tensor)>
std::vector<Tensor> of_self(Decomposer&, const Args& a) {
  return {formula(a.tensor("self"))};
}

}  // namespace toroid
