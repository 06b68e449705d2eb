// Which values lie in memory with their channels next to each other.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace toroid {

// Is this convolution computed with its output's channels next to each other? Those in one or two dims, of float32 or narrower floats,
// not transposed.
bool is_channels_last_convolution(const Graph& graph, const Node& node);

// By value: should it, if it comes to be in memory, have the strides of channels_last_strides? Convolutions' results do, and what is
// computed from them element by element or over windows. `in_tiles`: so do transposed ones and ones along three dims
// that are computed as others (phased_convolution.h, deep_convolution.h).
std::vector<bool> channels_last_values(const Graph& graph, bool in_tiles = false);

// [N, C, spatial...] with C innermost.
std::vector<sym::Expr> channels_last_strides(const std::vector<sym::Expr>& sizes);

// Are sizes or strides known to be equal?
bool are_equal(const std::vector<sym::Expr>& a, const std::vector<sym::Expr>& b);

// [O, C, taps...] with O innermost, then C: what neighbouring filters have of a tap lies together.
std::vector<sym::Expr> filters_innermost_strides(const std::vector<sym::Expr>& sizes);

}  // namespace toroid
