// A softmax along the last dim, as it is after decomposition.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "passes/uses.h"

namespace toroid {

// x of exp(x - max(x)) / sum(exp(x - max(x))), where nothing else reads what lies between.
std::optional<ValueId> softmax_operand(const Graph& graph, const Uses& uses, ValueId result);
// Behind views that only repeat elements or change the shape.
ValueId behind_views(const Graph& graph, ValueId id);
// A number that every element is.
std::optional<double> number_of(const Graph& graph, ValueId id);
// Is it a conversion of floats to other floats, or a copy?
bool is_float_cast(const Graph& graph, const Node& node);

}  // namespace toroid
