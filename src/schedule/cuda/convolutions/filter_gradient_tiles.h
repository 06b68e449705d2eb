// Gradients of filters that a kernel of the program's own makes in tiles on a GPU (codegen/cuda/prelude/filter_gradient.inc).
#pragma once

#include "schedule/cuda/convolutions/convolution_tiles.h"

namespace toroid::schedule {

// The convolution of which it is the gradient; its `filters` are the gradient of the results.
struct FilterGradientShape {
  ConvolutionShape convolution;
  sym::Expr parts = 1;

  sym::Expr columns() const { return convolution.depth(); }
};
struct FilterGradientAttempt {
  std::optional<FilterGradientShape> shape;
  std::string_view reason = {};  // without a shape: why
};
// Of a call of lower/convolutions/filter_gradient.h.
FilterGradientAttempt as_filter_gradient_of_tiles(const loop::LoopProgram& program, const loop::Call& call,
                                                  const std::vector<BufferId>& outputs);

GpuTiles choose_tiles(const FilterGradientShape& shape);
int shared_bytes_of_filter_gradient(const GpuTiles& tiles);
sym::Expr blocks_of(const FilterGradientShape& shape, const GpuTiles& tiles);

}  // namespace toroid::schedule
