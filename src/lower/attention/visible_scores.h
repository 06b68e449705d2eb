// Which of an attention's scores count: taken out of the expression that hides the others.
//
//   where(j <= i, acc0 * 0.125, -inf)             =>   acc0 * 0.125 where j <= i
//   acc0 * 0.125 + where(d[i] == d[j], 0, -inf)   =>   acc0 * 0.125 where d[i] == d[j]
#pragma once

#include "loop/loop.h"

namespace toroid {

// `axes`: batch, head, query and key. A score that is hidden by a finite number counts, unless every query sees the key at its own place.
loop::Scores visible_scores(loop::ExprTable& exprs, std::vector<sym::Expr> axes, loop::ExprId value);

}  // namespace toroid
