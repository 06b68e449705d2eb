// Gradients of average, max, adaptive and fractional pooling.
//
// Each input element sums the windows that cover it, of which there are few: a view and a reduction, as the pools are
// themselves, so that gradients fuse with their neighbours and are summed in a fixed order. A maximum's gradient counts
// where the window's recorded position is the element's own.
//
//   avg_pool_backward(g, x, 3, 2)  =>  sum(where(covers, readers(g / 9) [N, C, h, w, 2, 2], 0), dims [-2, -1])
//
// x is what was pooled, over its last dims; the gradient has its sizes and dtype, and is summed in F32 for F16 and BF16. `indices` are the
// flat positions that the forward functions give.
#pragma once

#include "formula/nn/pooling.h"

namespace toroid::formula {

Tensor avg_pool_backward(Tensor grad, Tensor x, const PoolGeometry& geometry, const AverageCount& count);
Tensor max_pool_backward(Tensor grad, Tensor x, Tensor indices, const PoolGeometry& geometry);

// Over the last `spatial` dims. Averages are spread along one dim after the other.
Tensor adaptive_avg_pool_backward(Tensor grad, Tensor x, size_t spatial);
Tensor adaptive_max_pool_backward(Tensor grad, Tensor x, Tensor indices, size_t spatial);

// Windows that random numbers placed: each maximum's gradient is scattered to the element that it came from.
Tensor fractional_max_pool_backward(Tensor grad, Tensor x, Tensor indices, size_t spatial);

}  // namespace toroid::formula
