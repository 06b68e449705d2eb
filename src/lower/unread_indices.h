// Indices that no address is made of, as those of a dim of size 1 or of an expanded one. They are checked all the same.
//
//   w: f32[1, 4], i: i64[3]     gather(w, i, …)[i0, i1] = w[0, i1]     =>     where(bitcast.i64.i64(v0) >= 0, w[0, i1], 0.0)
//
// v0 is the value symbol of i[i0]: who computes v0 checks it. The bitcast keeps the comparison from being folded.
#pragma once

#include "loop/loop.h"

namespace toroid {

// `value`, computed with a check of the value symbol `index`.
loop::ExprId with_check(loop::ExprTable& exprs, loop::ExprId value, sym::Expr index);

// The same where `value` itself is computed without that index somewhere.
loop::ExprId with_check_if_unread(loop::ExprTable& exprs, loop::ExprId value, sym::Expr index);

}  // namespace toroid
