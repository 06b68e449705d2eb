// What differs along one dim of a tensor alone, as a bias or a scale of channels does.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "passes/constant_values.h"

namespace toroid {

// The value without its expansion, if it is constant and its sizes are 1 in all dims but `channel`. A `full` may have any sizes.
std::optional<ValueId> constant_of_channels(const Graph& graph, const std::vector<Constancy>& constancy, ValueId id, size_t channel);

}  // namespace toroid
