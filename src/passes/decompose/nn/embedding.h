// Which bag each index of an embedding_bag belongs to.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// [n], I64, from the bags' offsets [bags], of which the first is 0: how many of them are at or before i, less one.
Tensor bag_of_index(sym::Expr n, Tensor offsets);

}  // namespace toroid
