// Which values of a program do not depend on its inputs.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace toroid {

enum class Constancy : uint8_t {
  None,       // changes from call to call
  Positions,  // follows from fixed sizes alone: numbers, positions, and what is computed from them
  Weights,    // from tensors that the program holds
};

// The output that is the new value of this constant for later calls, if there is one; the last, which is what they find.
std::optional<uint32_t> update_of(const Program& program, ConstantId id);
bool is_written(const Program& program, ConstantId id);

// Those that the program's nodes name.
std::set<ConstantId> used_constants(const Program& program);

// Is the program one that trains, so that what follows from its parameters is soon another?
bool returns_gradients(const Program& program);

// By value of the main graph. Only values of fixed sizes are constant, and only those that follow from no symbolic size.
std::vector<Constancy> constant_values(const Program& program);

}  // namespace toroid
