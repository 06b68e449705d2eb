// Where values belong in sorted rows.
#pragma once

#include "graph/builder.h"

namespace toroid {

// For each value the number of elements of its sorted row before it: those below it, with `right` also those equal to
// it. `sorted` has rank 1 or the leading sizes of `values`. NaN comes after every number.
Tensor insertion_points(Tensor sorted, Tensor values, bool right);

}  // namespace toroid
