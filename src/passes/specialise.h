// A copy of a program in which some sizes are numbers: what dispatch by guards chooses for the calls that have these sizes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace toroid {

// Sizes with their values: {{"s40", 1}, {"image.2", 128}}. A size is called by its symbol, or as INPUT.DIM: the size of an input in a dim.
using SizeValues = std::vector<std::pair<std::string, int64_t>>;

// The same by symbols alone, each once. Throws Error{InvalidOption} for a name that is neither, with what there is; for a size that is
// fixed or is no multiple of its symbol as the program needs it; and for two values of one symbol.
SizeValues by_symbols(const Program& program, const SizeValues& values);

// The operators of a program at import level that compute otherwise in training: "batch_norm (2 uses), dropout (1 use)"; empty where there
// are none, and where the program is meant to train, since it returns gradients.
std::string training_operators(const Program& program);

// `program` at import level; the copy has symbols of its own and shares the weights' bytes. Throws Error{InvalidOption} for a name
// that is no size of the program, for a value outside of its range or against the program's guards, and for a core-level program.
Program specialise(const Program& program, const SizeValues& values);

}  // namespace toroid
