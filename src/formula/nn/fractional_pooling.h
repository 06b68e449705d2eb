// Max pooling over windows that random numbers place (Graham, 2014).
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// {maxima, their flat positions in the plane, I64} of x [N, C, i…] or [C, i…], over windows of the sizes `kernel`, as many as `out` says;
// an entry for each spatial dim. `samples` [N, C, dims], floating, are the random numbers in [0, 1) along the last dims, in 2-D listed from
// the last one on. Window o of a dim begins at floor((o + u)*alpha) - floor(u*alpha), alpha = (input - kernel)/(count - 1), and the last
// one at the end, computed in x's dtype.
std::vector<Tensor> fractional_max_pool(Tensor x, Tensor samples, const Sizes& kernel, const Sizes& out);

}  // namespace toroid::formula
