// Operations among processes, as nodes (library/collectives/collectives.h).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace toroid {

// The result of the collective of this name ("all_reduce"), of x's dtype and these sizes. It takes the token of the graph's last one, so
// that all processes run them in the graph's order. `attributes`: its own, then its GROUP.
Tensor add_collective(Builder& b, std::string_view name, Tensor x, Sizes sizes, std::vector<Scalar> attributes);

// Of a collective's attributes the i-th, where that is a known number.
std::optional<int64_t> known_attribute(const Library& collective, size_t i);

}  // namespace toroid
