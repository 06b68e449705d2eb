// Attention becomes products and a softmax, where a target has no kernel for it. Needs and keeps core level.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace toroid {

// All but what `has_kernel` says. True if there was any.
bool expand_attention(Program& program, const std::function<bool(const Graph&, const Node&)>& has_kernel);

}  // namespace toroid
