// Removes nodes whose results nobody uses.
//
//   t = exp(x)
//   u = neg(x)         =>      t = exp(x)
//   return t                   return t
//
// Inputs stay, used or not: they are the program's contract; so do values that define a symbol, and collective operations, in which other
// processes wait. Other core operations have no side effects, so use is all that counts. Works on the main graph and on subgraphs.
#pragma once

#include "graph/graph.h"

namespace toroid {

// Keeps names, order, inputs and outputs. True if something was removed.
bool remove_dead_code(Program& program);

}  // namespace toroid
