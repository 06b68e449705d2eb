// Computes what does not depend on the program's inputs, once, while compiling.
//
//   two  = full(value=2.0)                 n = iota(dim=0)
//   half = div(one, two)                   p = scan.sum(n)
//   y    = mul(x, half)                    y = gather(x, p)
//     =>                                     =>
//   half = full(value=0.5)                 p = constant(3)
//   y    = mul(x, half)                    y = gather(x, p)
//
// Tensors whose elements are all equal become `full`, whatever their size. Others become constants when they are small and took
// real work (a scan, a sort, a transcendental function): what is cheap to compute is cheaper inside a kernel than in memory. Weights and
// buffers are left alone, because a program's weights can be exchanged.
#pragma once

#include "graph/graph.h"

namespace toroid {

// Whether all numbers of a core operation itself are known: none of them is a symbolic size.
bool has_fixed_attributes(const Op& op);

// Needs core level. Keeps outputs and names. True if something was folded.
bool fold_constants(Program& program);

}  // namespace toroid
