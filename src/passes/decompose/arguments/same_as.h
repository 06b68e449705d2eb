// Operators that are another operator under a second name, with the same arguments in the same order.
//
//   {"prims::rsqrt", same_as<"aten::rsqrt">},
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

template <size_t N>
struct OperatorName {
  char text[N] = {};
  consteval OperatorName(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT: implicit, for same_as<"…">
};

// All arguments of the node in the order of its schema, to be passed on.
std::vector<Decomposer::Value> values_of(const Args& a);

// The other operator may have more arguments; they take their defaults.
template <OperatorName op>
std::vector<Tensor> same_as(Decomposer& d, const Args& a) {
  return d.call(op.text, values_of(a));
}

}  // namespace toroid
