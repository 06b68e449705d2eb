// A copy of a program in which some sizes are numbers: what dispatch by guards chooses for the calls that have these sizes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace toroid {

// Size symbols by name with their values: {{"s0", 1}, {"s3", 128}}.
using SizeValues = std::vector<std::pair<std::string, int64_t>>;

// `program` at import level; the copy has symbols of its own and shares the weights' bytes. Throws Error{InvalidOption} for a name
// that is no size of the program, and for a value outside of its range or against the program's guards.
Program specialise(const Program& program, const SizeValues& values);

}  // namespace toroid
