// Calls that PyTorch accepts, for operators whose tensors must fit each other: convolutions with bias, cells, solvers, gradients.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace toroid::hostile {

struct PlausibleCall {
  const Schema* schema = nullptr;   // the operator's own or another overload of it
  std::vector<Argument> arguments;  // one per parameter; InputRefs count in `inputs`
  std::vector<TensorType> inputs;
};
// Nothing for an operator that plausible arguments of any shapes suit.
std::optional<PlausibleCall> plausible_call(const Schema& schema);

}  // namespace toroid::hostile
