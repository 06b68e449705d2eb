// Attention becomes products and a softmax, for targets that have no kernel for it. Needs and keeps core level.
#pragma once

#include "graph/graph.h"

namespace toroid {

// True if the program had any.
bool expand_attention(Program& program);

}  // namespace toroid
