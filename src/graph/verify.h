// Checks that a program keeps the graph IR's rules.
//
// The pass runner calls it after each pass in debug builds and tests call it often. What it finds is toroid's fault, or that of a
// hand-written text, never a user's model's: importers check those before.
#pragma once

#include "graph/graph.h"

namespace toroid {

enum class Level { Import, Core };

// Throws Error{Internal} that shows the broken node: values defined before use and named once, types that follow from the
// operations and, of control flow, from its subgraphs, which stand before what calls them; axes bound where they are used, indices within bounds as far as is known, references that exist, inputs and
// outputs that fit the signature; at core level no import-level nodes.
void verify(const Program& program, Level level);

}  // namespace toroid
