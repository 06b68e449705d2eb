// Where a grid sampling reads its input, and with which weights: shared by the operators and their gradients.
#pragma once

#include <vector>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

enum class Interpolation { Linear = 0, Nearest = 1, Cubic = 2 };
enum class Outside { Zeros = 0, Border = 1, Reflection = 2 };

struct Sampling {
  Interpolation interpolation;
  Outside outside;
  bool align_corners;
};

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

// From the arguments input, grid, interpolation_mode, padding_mode and align_corners. Throws Error{InvalidModel} for
// modes and ranks that there are not.
GridSampling grid_sampling(const Args& a);

// -1 … 1 in `count` steps: corners at the ends, or half a step inside.
Tensor grid_line(Builder& b, sym::Expr count, bool align_corners, DType dtype);

}  // namespace toroid
