// Convolutions along three dims as ones along two, for targets that make those in tiles.
//
// An image has one more channel for each tap along the first dim, its depth, and there are as many images as results along it:
//
//   y[n, k, d, p, q] = made[n * D + d, k, p, q],    made = convolution of copy and filters
//   copy[n * D + d, t * C + c, i, j] = x[n, c, s*d + a*t - padding, i, j], or 0 beyond x
//   filters[k, t * C + c, i, j] = w[k, c, t, i, j]
//
// The copy has the image as often as there are taps along the depth. That is read and written once, where a sum over channels and taps on
// plain cores takes ten times as long as the product on tensor cores.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "lower/convolutions/convolution_loops.h"

namespace toroid {

struct DeepConvolution {
  sym::Expr depth;                                                 // results along the first dim
  sym::Expr stride, padding, dilation;                             // along it
  sym::Expr channels, taps;                                        // of the image as it is, and of a filter along the depth
  Convolution op;                                                  // along the two others
  std::vector<sym::Expr> image_sizes, filter_sizes, output_sizes;  // of four dims; channels in packs
};
// Of float32 or narrower floats, without groups, not transposed, with filters of known sizes whose number is a multiple of 8.
std::optional<DeepConvolution> deep_convolution(const Graph& graph, const Node& node);

// A place in the copy.
struct DeepPlace {
  sym::Expr image, depth, row, column, tap, channel;
};
DeepPlace deep_place(const DeepConvolution& it, const std::vector<sym::Expr>& index);  // of the four dims

// An element of the copy and of the filters, in terms of the operands as they are: `sizes` the image's, [N, C, D, H, W].
loop::ExprId deep_image(loop::ExprTable& exprs, const DeepConvolution& it, const std::vector<sym::Expr>& sizes, const DeepPlace& at,
                        const LoadAt& element);
loop::ExprId deep_filter(loop::ExprTable& exprs, const DeepConvolution& it, const std::vector<sym::Expr>& index, const LoadAt& element);

}  // namespace toroid
