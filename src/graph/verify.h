// Checks that a program keeps the graph IR's rules.
//
// Decomposing always ends with it: what it finds there are sizes of a model that do not fit each other. The runner of passes
// (passes/pipeline.h) calls it after each pass in checked runs: debug builds, test binaries, TOROID_VERIFY=1. What it finds there is
// toroid's fault, or that of a hand-written text.
#pragma once

#include "graph/graph.h"

namespace toroid {

enum class Level { Import, Core };

// Throws Error{Internal} that shows the broken node: values defined before use and named once, types that follow from the
// operations and, of control flow, from its subgraphs, which stand before what calls them; axes bound where they are used, indices within
// bounds as far as is known, references that exist, inputs and outputs that fit the signature; at core level no import-level nodes.
void verify(const Program& program, Level level);

}  // namespace toroid
