// Arguments that PyTorch refuses, or that no machine can serve: for any operator, from its schema alone.
//
// An operator's arguments are first plausible: those of a call that PyTorch accepts (plausible_calls.h), or
// tensors that go together, small sizes, words that operators know. Then one or two of them
// turn hostile: another rank or dtype, None, an empty list or one of another length, a number from the ends of 64 bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace toroid::hostile {

// An operator with the types of its tensors. Depends on the operator and the seed alone.
struct Call {
  const Schema* schema;
  std::vector<Argument> arguments;  // one per parameter; InputRefs count in `inputs`
  std::vector<TensorType> inputs;   // complex and 8-bit types too
};
Call hostile_call(const Schema& schema, uint64_t seed, sym::Context& symbols);

// A program of the one operator, at import level. `results`: the types that it records, one a tensor of a list; its outputs are those of
// them that are given.
Program program_of(const Call& call, std::unique_ptr<sym::Context> symbols, const std::vector<std::optional<TensorType>>& results);

}  // namespace toroid::hostile
