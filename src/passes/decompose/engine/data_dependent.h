// Results whose size depends on the values of tensors.
//
// The size is a symbol (the exporter's u0, where it recorded one), and a binding of the graph says which number it stands
// for; everything else is made of ordinary core operations of that size:
//
//   nonzero(x)    count: i64[] = sum(x != 0)    bind u0 = count    … scatter, slice to [u0] …
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// `size` is what the rank-0 integer `value` holds at run time. A constant size needs no binding: the caller says why it is right.
sym::Expr bind_size(Builder& b, sym::Expr size, Tensor value);

// Whether this is the exporter's symbol for a size that depends on data, and nothing gives it a value yet.
bool is_unbound(const Graph& graph, sym::Expr size);

// A new symbol for a size or offset in [0, most] that the rank-0 integer `value` holds at run time.
sym::Expr bound_symbol(Builder& b, Tensor value, sym::Expr most);

// The program refuses to go on where an element of `holds` (Bool) is false. `what` counts those that are, in the error.
void require_true(Builder& b, Tensor holds, const std::string& what);

// Size `dim` of result `result` as the exporter recorded it, bound to `value`; a new symbol when it recorded none. A number, which
// torch._check(x.shape[0] == 3) makes of a size, is checked: in subgraphs of control flow it is not, whose sizes no guard can name.
sym::Expr bind_recorded(Decomposer& d, size_t result, int64_t dim, Tensor value, sym::Expr most);

// Indices as x[indices] takes them: each mask becomes the positions of its true elements, one index for each of its dims.
std::vector<Tensor> positions_of_masks(Decomposer& d, const std::vector<Tensor>& indices);

}  // namespace toroid
