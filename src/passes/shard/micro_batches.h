// Computation of one half of a batch beside communication of the other one.
//
//   a = f(x)                      a0 = f(x[0:2])
//   b = all_reduce(a)             b0 = all_reduce(a0)
//   c = g(b)               =>     a1 = f(x[2:4])               while b0 is on its way
//                                 b1 = all_reduce(a1)
//                                 c0 = g(b0)                   while b1 is on its way
//                                 c1 = g(b1)
//
// In a transformer cut by tensor parallelism nothing but the other half is independent of a reduction (Wang et al., "Domino: Eliminating
// Communication in LLM Training via Generic Tensor Slicing and Overlapping", 2024). Which values have halves: halves.h.
#pragma once

#include "graph/graph.h"
#include "passes/costs.h"

namespace toroid {

// Splits the batch, the inputs' first dim, of a program with collective operations, where that saves time by the estimates of
// PassCosts::beside. Needs core level; a batch whose size is no number stays whole. False where nothing changed.
bool split_batch(Program& program, const PassCosts& costs);

}  // namespace toroid
