// Sums over two processes by what one of them has for the other.
//
//   b = all_reduce(a)             t = swap(a)                    the other process's a
//   c = g(b)               =>     c = g(a + t)                   in one kernel
//
// Copy engines move what is swapped, so no kernel of a reduction takes multiprocessors from those that run beside it, and the addition is
// one more tensor that a kernel behind it reads. Both processes add the same two numbers, so their sums are the same; of 16-bit floats they
// are rounded once, as all_reduce does.
#pragma once

#include "graph/graph.h"
#include "passes/costs.h"

namespace toroid {

// For programs of two processes whose GPUs copy into each other's memory (PassCosts::swapped_from_bytes), and large tensors. Needs core
// level. False where nothing changed.
bool swap_sums(Program& program, const PassCosts& costs);

}  // namespace toroid
