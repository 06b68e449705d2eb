// Gradients of grid_sample with respect to its input, scattered to where the grid read it, and to the grid, gathered from the input as the
// result was; and of affine_grid.
//
// With y the sum over taps of x[tap] * w[tap], a coordinate's gradient is the sum over channels of
// g * sum over taps of x[tap] * dw[tap], where the weight along the coordinate's own dim is replaced by its slope.
#pragma once

#include <array>

#include "formula/nn/grid_sampling.h"

namespace toroid::formula {

// With the sizes and dtypes of what they are gradients of; undefined where they are not wanted.
struct GridGradients {
  Tensor x, grid;
};
GridGradients grid_sample_backward(Tensor grad, Tensor x, Tensor grid, const Sampling& sampling, const std::array<bool, 2>& wanted);

// dtheta[n, i, j] = sum over positions of grad[n, …, i] * coordinate j, the last coordinate being 1; in grad's dtype.
Tensor affine_grid_backward(Tensor grad, const Sizes& sizes, bool align_corners);

}  // namespace toroid::formula
