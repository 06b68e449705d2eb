// A convolution as loops: for targets whose library has none for it, or none for a case like this one.
//
//   y[n, o, p] = sum over c, k of x[n, c', p * stride + k * dilation - padding] * w[o, c, k]
//
// c' is c among the channels of o's group. Where a place is outside of the image nothing is loaded and nothing is added.
#pragma once

#include <functional>

#include "loop/loop.h"

namespace toroid {

// An element of the image [N, C, …] or of the weights, at one index per dim.
using LoadAt = std::function<loop::ExprId(const std::vector<sym::Expr>& index)>;

// What is summed over `reduce_axes`, for the output's element at `axes`. Dims of size 1 have the axis 0; there may be no reduce axes.
struct ConvolutionLoops {
  std::vector<sym::Expr> axes, reduce_axes;
  loop::ExprId value;
};
ConvolutionLoops convolution_loops(loop::ExprTable& exprs, const Convolution& op, const std::vector<sym::Expr>& image_sizes,
                                   const std::vector<sym::Expr>& weight_sizes, const std::vector<sym::Expr>& output_sizes,
                                   const LoadAt& image, const LoadAt& weight);

}  // namespace toroid
