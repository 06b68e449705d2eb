// Folds a scale and a shift of each channel into the filters of the convolution, or the right side of the product, that makes the channels.
//
//   c = convolution(x, w)                   v = w * scale          once, before the first call
//   s = mul(c, scale[channel])      =>      y = convolution(x, v, shift)
//   y = add(s, shift[channel])
//
// So a batch norm in inference costs nothing. The pattern is one of core operations: what a batch norm, a layer scale or a formula written
// by hand was decomposed into. Between the product and its scale there may be views that keep the channels apart, as after `linear`.
//
// What is folded follows from weights alone (passes/constant_values.h). It is computed when the program is loaded, as everything of that
// kind, so weights can be exchanged and a model trained anew is found in the cache. It is computed in double, the scale and the shift
// included, and rounded once.
//
// Left alone are
//   products that others read too, and products in float16 and bfloat16, whose rounding would become the filters';
//   filters that the program computes (dequantised weights) or writes;
//   scales that are plain numbers: nothing is gained, and the weights would be in memory twice;
//   scales that may be infinite, which would make NaNs of filters that are 0: divisions by a tensor of the model, or by the root of a
//     variance without an epsilon;
//   programs that return gradients.
//
// A scale of 0 gives zeros of either sign.
#pragma once

#include "graph/graph.h"

namespace toroid {

// Needs core level; works on the main graph. Keeps outputs and names. True if something was folded.
bool fold_affine(Program& program);

}  // namespace toroid
