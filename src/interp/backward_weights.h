// The gradient of a convolution's filters (runtime/kernels/conv/backward_weights/backward_weights.h), in sums of double.
#pragma once

#include "library/library_ops.h"

namespace toroid {

// Attributes: the groups, then stride, padding and dilation of each spatial dim.
void backward_weights(const LibraryCall& call);

}  // namespace toroid
