// Depthwise convolutions of bytes, whose sums are written out over the filter's elements, its taps:
//
//   y[n, c, p] = sum over t of i32(x[n, c, p * stride + t * dilation]) * i32(w[c, 0, t])
//
// As an expression the sums never are in memory: what follows them, as scale, bias and rounding to bytes, is done in the same loop, and so
// bytes are all that is read and written. The image lies with its channels innermost, the filters by taps.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "lower/convolutions/convolution_loops.h"

namespace toroid {

struct DepthwiseOfBytes {
  ValueId image;              // of bytes, [N, C, i…]
  std::vector<int64_t> taps;  // of a filter along each spatial dim
};
// Of I32, one or two spatial dims, without padding and bias: a channel of the image for each of the result, casts of bytes, and filters of
// few taps. Nothing else is one.
std::optional<DepthwiseOfBytes> depthwise_of_bytes(const Graph& graph, const Node& node);

// The sum at `axes` of the result. `weight` gives I32.
loop::ExprId depthwise_sum(loop::ExprTable& exprs, const Convolution& op, const DepthwiseOfBytes& it, const std::vector<sym::Expr>& axes,
                           const LoadAt& image, const LoadAt& weight);

}  // namespace toroid
