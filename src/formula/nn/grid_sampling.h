// Sampling an image at positions that a tensor gives, and grids of such positions (Jaderberg et al., 2015).
//
// x is [N, C, in…], floating. A grid [N, out…, dims] holds x, y (and z) in [-1, 1], x first: the last of the input's dims. Each position
// reads its neighbours with linear or cubic weights, or the nearest element; outside the image there are zeros, the border, or reflections.
// F16 and BF16 are computed with in F32.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

enum class Interpolation { Linear = 0, Nearest = 1, Cubic = 2 };
enum class Outside { Zeros = 0, Border = 1, Reflection = 2 };

struct Sampling {
  Interpolation interpolation = Interpolation::Linear;
  Outside outside = Outside::Zeros;
  bool align_corners = false;  // -1 and 1 are the middles of the corner elements, not their outer edges
};

// [N, C, out…] in x's dtype. Throws Error{InvalidModel} where the ranks of x and grid differ, and for cubic interpolation of volumes.
Tensor grid_sample(Tensor x, Tensor grid, const Sampling& sampling);

// [N, out…, dims] in theta's dtype: out[n, …, i] = sum over j of theta[n, i, j] * coordinate j, the last coordinate being 1. `sizes` are
// [N, C, out…], of 4 or 5 dims.
Tensor affine_grid(Tensor theta, const Sizes& sizes, bool align_corners);

// ---- what the operators and their gradients share -----------------------------------------------------------------------

// An input element that each position of the grid reads along one dim; all are [N, 1, out…].
struct GridTap {
  Tensor index;      // I64, in bounds
  Tensor is_inside;  // Bool
  Tensor weight;     // undefined: 1
  Tensor slope;      // of the weight as the position moves by one element; undefined: 0
};

struct TapLine {
  std::vector<GridTap> taps;
  Tensor rate;  // elements that the position moves by as the coordinate does by 1; of rank 0 when all do alike
};

struct GridSampling {
  std::vector<TapLine> lines;   // per spatial dim of the input
  std::vector<Tensor> leading;  // positions along N and C
};

// The taps of each position, as grid_sample reads them.
GridSampling grid_taps(Tensor x, Tensor grid, const Sampling& sampling);

// -1 … 1 in `count` steps: corners at the ends, or half a step inside.
Tensor grid_line(Builder& b, sym::Expr count, bool align_corners, DType dtype);

}  // namespace toroid::formula
