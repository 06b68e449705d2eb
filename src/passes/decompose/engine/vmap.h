// torch.vmap: a graph that computes a slice, applied to all slices at once. Each value that depends on a mapped tensor gets the batch as a
// dim before its own; core operations are few, and most take one dim more as they are:
//
//   body(a: f32[4], w: f32[4]) { mul = a * w;  s = reduce.sum(mul, dims=[0]) }      over a: f32[5, 4]
//   =>  mul: f32[5, 4] = a * expand(w);  s: f32[5] = reduce.sum(mul, dims=[1])
#pragma once

#include <optional>
#include <vector>

#include "graph/builder.h"

namespace toroid {

// The results of `body`, a graph at core level, for each of `count` slices of `mapped` along their first dim, stacked along a new first
// dim. The body's inputs are a slice of each of `mapped`, then `others`. Random numbers, if all slices draw the same. Nothing for a body
// that must run slice by slice: with control flow, sizes that depend on data, random numbers, or a convolution whose weights are mapped.
// What was built until then is dead.
std::optional<std::vector<Tensor>> map_all_slices(Builder& b, const Graph& body, sym::Expr count, const std::vector<Tensor>& mapped,
                                                  const std::vector<Tensor>& others, bool draws_the_same);

}  // namespace toroid
