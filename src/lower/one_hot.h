// Sums of which at most one element is not zero, which is known by its place: no loop is needed.
//
//   sum over r of where(r == label[i] && valid[i], x[i], 0)   =>   where(0 <= label[i] && label[i] < n && valid[i], x[i], 0)
//
// So is the sum of a row of a negative log-likelihood's gradient, which log_softmax's gradient needs.
#pragma once

#include <optional>

#include "loop/loop.h"

namespace toroid {

// The sum of `value` over all values of the axis `along`; none where it is not known to be of such a form.
std::optional<loop::ExprId> sum_of_one_hot(loop::ExprTable& exprs, loop::ExprId value, sym::Expr along);

}  // namespace toroid
