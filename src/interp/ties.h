// Sorting, topk and argmax may name any of several equal elements. Whether two answers both name right ones is a
// question about the values they point at:
//
//   x = [3, 1, 3]    argmax(x): 0 and 2 are both right    argsort(x): [1, 0, 2] and [1, 2, 0] are both right
#pragma once

#include <span>

#include "graph/graph.h"
#include "tensor/host_tensor.h"

namespace toroid {

// True when output `output` of the core-level program consists of indices found by a sort, a cumulative extremum or
// an arg-reduction, perhaps moved about by views since, and `a` and `b` point at the same values everywhere, each
// index of a sort at an element of its own. Evaluates the program on `inputs` to know the values.
bool point_at_equal_values(const Program& program, std::span<const HostTensor> inputs, size_t output, const HostTensor& a,
                           const HostTensor& b);

}  // namespace toroid
