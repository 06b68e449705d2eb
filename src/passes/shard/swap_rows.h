// Rows that two processes gather, and sums that they scatter, on their way beside products of other rows.
//
//   y = all_gather(x)             t = swap(x)                    the other process's rows
//   p = matmul(f(y), w)           f0 = f(x)                      while these are on their way
//   z = reduce_scatter(p)         p1 = matmul(f(t), w)           addends for the other process
//                          =>     u = swap(p1)                   and those that it has for this one
//                                 p0 = matmul(f0, w)             while these are on their way
//                                 z = p0 + u
//
// Own rows come first on the way in, those of the other process on the way out, and the last product of own rows last. So each swap is
// beside a product that does not need it. Halves are those of halves.h: the first is process 0's.
#pragma once

#include "graph/graph.h"
#include "passes/costs.h"

namespace toroid {

// For programs of two processes whose GPUs copy into each other's memory (PassCosts::swapped_from_bytes), and large tensors. Needs core
// level. False where nothing changed.
bool swap_rows(Program& program, const PassCosts& costs);

}  // namespace toroid
